package suite

func seed000() []scenario { return nil }

func children000() map[string]func([]byte) { return nil }
