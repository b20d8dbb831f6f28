package suite

func childrenPromises() map[string]func([]byte) { return nil }
