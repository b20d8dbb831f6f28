package suite

// children are the programs that a child process can run, by name.
func children() map[string]func(args []byte) {
	all := map[string]func([]byte){}
	for _, of := range []map[string]func([]byte){children000(), children001(), children002(), children003(), childrenPromises(), {"chaos": chaosChild}} {
		for name, f := range of {
			all[name] = f
		}
	}
	return all
}
