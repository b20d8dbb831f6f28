package suite

func seed001() []scenario { return nil }

func children001() map[string]func([]byte) { return nil }
