package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Embedder turns texts into vectors: one for each text, in their order, all of one length. Texts that mean the same give
// vectors of a small angle. It is called outside every transaction, and must be safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// path names a part of a value: names of fields, "[0]", "[*]". An empty one is the whole value.
type path []string

func parsePaths(fields []string) ([]path, error) {
	out := make([]path, len(fields))
	for i, f := range fields {
		p, err := parsePath(f)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func parsePath(text string) (path, error) {
	p := path{}
	if text == "$" {
		return p, nil
	}
	for _, part := range strings.Split(text, ".") {
		name, rest, indexed := strings.Cut(part, "[")
		if name != "" {
			p = append(p, name)
		}
		for indexed {
			var at string
			at, rest, _ = strings.Cut(rest, "]")
			if _, err := strconv.Atoi(at); at != "*" && err != nil {
				return nil, &InputError{"index", fmt.Sprintf("%q: %q is no place in a list; write [0] or [*]", text, at)}
			}
			p = append(p, "["+at+"]")
			if rest, indexed = strings.CutPrefix(rest, "["); !indexed && rest != "" {
				return nil, &InputError{"index", fmt.Sprintf("%q: %q follows a place in a list; put a dot before it", text, rest)}
			}
		}
		if len(part) == 0 {
			return nil, &InputError{"index", fmt.Sprintf(`%q: a name is empty; write "$" for the whole value`, text)}
		}
	}
	return p, nil
}

// texts returns what stands at a path, as texts: strings as they are, everything else as JSON; nothing for null.
func (p path) texts(v any) []string {
	if len(p) == 0 {
		switch v := v.(type) {
		case nil:
			return nil
		case string:
			return []string{v}
		}
		doc, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return []string{string(doc)}
	}
	if !strings.HasPrefix(p[0], "[") {
		fields, _ := v.(map[string]any)
		return p[1:].texts(fields[p[0]])
	}
	list, _ := v.([]any)
	if p[0] == "[*]" {
		var out []string
		for _, item := range list {
			out = append(out, p[1:].texts(item)...)
		}
		return out
	}
	i, _ := strconv.Atoi(p[0][1 : len(p[0])-1])
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return p[1:].texts(list[i])
}

// texts are what of a Put is embedded.
func (m *Memory) texts(p Put, value []byte) ([]string, error) {
	if p.NoIndex {
		return nil, nil
	}
	paths := m.paths
	if p.Index != nil {
		var err error
		if paths, err = parsePaths(p.Index); err != nil {
			return nil, err
		}
	}
	if m.opts.Embedder == nil {
		return nil, nil
	}
	v, err := decoded(value)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range paths {
		out = append(out, p.texts(v)...)
	}
	return out, nil
}

// embed asks the model once for the texts of a whole batch.
func (m *Memory) embed(ctx context.Context, acts []*act) error {
	var texts []string
	place := map[string]int{}
	for _, a := range acts {
		for _, t := range a.texts {
			if _, known := place[t]; !known {
				place[t] = len(texts)
				texts = append(texts, t)
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, err := m.opts.Embedder.Embed(ctx, slices.Clone(texts))
	if err != nil {
		return fmt.Errorf("store: embedding %d texts: %w; nothing was done", len(texts), err)
	}
	if len(vectors) != len(texts) {
		return &EmbeddingError{Reason: fmt.Sprintf("%d vectors for %d texts", len(vectors), len(texts))}
	}
	unit := make([][]float32, len(vectors))
	for i, v := range vectors {
		if len(v) == 0 || len(v) != len(vectors[0]) {
			return &EmbeddingError{Reason: fmt.Sprintf("vectors of %d and %d numbers", len(vectors[0]), len(v))}
		}
		if unit[i], err = normal(v); err != nil {
			return err
		}
	}
	for _, a := range acts {
		if len(a.texts) == 0 {
			continue
		}
		own := make([][]float32, len(a.texts))
		for i, t := range a.texts {
			own[i] = unit[place[t]]
		}
		a.embed(own)
	}
	return nil
}

// normal is a vector of length 1 in the same direction, so that a cosine is a product; zero stays zero.
func normal(v []float32) ([]float32, error) {
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	length = math.Sqrt(length)
	if math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, &EmbeddingError{Reason: "a vector holds what is no number"}
	}
	out := make([]float32, len(v))
	for i, x := range v {
		if length > 0 {
			out[i] = float32(float64(x) / length)
		}
	}
	return out, nil
}

// packVectors writes vectors of one length: how many, and their numbers.
func (m *Memory) packVectors(vectors [][]float32) ([]byte, error) {
	doc := binary.LittleEndian.AppendUint32(nil, uint32(len(vectors)))
	for _, v := range vectors {
		for _, x := range v {
			doc = binary.LittleEndian.AppendUint32(doc, math.Float32bits(x))
		}
	}
	return m.box.Pack(vectorKind, doc)
}

// score is the cosine between what was asked and the nearest of an item's vectors.
func (m *Memory) score(at string, body []byte, asked []float32) (float64, error) {
	doc, err := m.box.Unpack(vectorKind, where(at), body)
	if err != nil {
		return 0, err
	}
	labels, key := place(at)
	if len(doc) < 8 || len(doc)%4 != 0 {
		return 0, &EmbeddingError{labels, key, "it cannot be read"}
	}
	count, numbers := int(binary.LittleEndian.Uint32(doc)), doc[4:]
	if size := len(numbers) / 4; size != count*len(asked) {
		return 0, &EmbeddingError{labels, key, fmt.Sprintf("%d numbers in %d vectors, and the model in use makes %d", size, count, len(asked))}
	}
	best := math.Inf(-1)
	for ; count > 0; count-- {
		sum := 0.0
		for i, x := range asked {
			sum += float64(x) * float64(math.Float32frombits(binary.LittleEndian.Uint32(numbers[4*i:])))
		}
		best, numbers = max(best, min(sum, 1)), numbers[4*len(asked):]
	}
	return best, nil
}
