package suite

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The claim may be broken over lines, comment marks and string literals.
var (
	claim  = regexp.MustCompile("(?i)exactly[\\s\\-_/*#>\"'`+]+once\\b")
	denial = regexp.MustCompile(`(?i)\b(never|not|no|nobody|nothing|neither|nor|cannot|without)\b|n't\b`)
)

// claims returns the places of a text that promise what nobody can: not those that deny it in the same sentence.
func claims(text string) []string {
	var out []string
	for _, at := range claim.FindAllStringIndex(text, -1) {
		sentence := text[:at[0]]
		if end := strings.LastIndexAny(sentence, ".;:!?"); end >= 0 {
			sentence = sentence[end+1:]
		}
		if !denial.MatchString(sentence) {
			out = append(out, text[max(0, at[0]-40):min(len(text), at[1]+40)])
		}
	}
	return out
}

// words reads the first sentence. The pages of targets, its second, wait for effects.
func words(t *testing.T, _ *report) {
	t.Log("without its second sentence, the pages of targets: waits for effects")
	for text, want := range map[string]int{ // with another word, so that this file makes no claim
		"It runs precisely once.":                                             1,
		"It is not slow. It runs PRECISELY ONCE":                              1,
		"delivered precisely-once":                                            1,
		"// it runs precisely\n\t// once":                                     1,
		`"it runs precisely " + "once"`:                                       1,
		"Nobody can promise that a call runs precisely once.":                 0,
		"It doesn't run precisely once, but at least that often.":             0,
		"precisely one ounce":                                                 0,
		"Precisely once, and not twice: precisely once. Never precisely once": 2,
	} {
		text = regexp.MustCompile("(?i)precisely").ReplaceAllString(text, "Exactly")
		same(t, "claims in "+text, len(claims(text)), want)
	}
	root, read := filepath.Join("..", ".."), map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		doc, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(doc, 0) >= 0 {
			return err
		}
		read[filepath.Ext(path)]++
		for _, c := range claims(string(doc)) {
			t.Errorf("%s promises what nobody can: …%s…", path, c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read[".go"] < 50 {
		t.Errorf("read %v files, too few", read)
	}
}
