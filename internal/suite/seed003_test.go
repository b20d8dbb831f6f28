package suite

func seed003() []scenario { return nil }
