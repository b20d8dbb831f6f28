package suite

func seed002() []scenario { return nil }

func children002() map[string]func([]byte) { return nil }
