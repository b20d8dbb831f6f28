package records

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pawl-dev/pawl/storage"
)

// Box packs bodies for storage: a format byte, a checksum, and what the codec made of the payload. The zero Box has
// no codec.
type Box struct{ Codec storage.Codec }

const (
	formatPlain   = 1
	formatEncoded = 2 // the payload is preceded by one length byte and the key's id
)

// DamagedError is a body that cannot be read: truncated, altered, of another format or under an unknown key. The row
// is left as it is.
type DamagedError struct {
	Kind  string
	Where string // thread and row, for people
	Err   error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s %s cannot be read: %v; nothing was run and the row was left as it is", e.Kind, e.Where, e.Err)
}
func (e *DamagedError) Unwrap() error { return e.Err }

// headSize is what stands in front of a payload: the format and the checksum.
const headSize = 5

// Pack makes a stored body of a payload.
func (b Box) Pack(kind string, payload []byte) ([]byte, error) {
	return b.packIn(kind, append(make([]byte, headSize, headSize+len(payload)), payload...))
}

// packIn is Pack of a payload that stands behind headSize bytes of room. Without a codec nothing is copied.
func (b Box) packIn(kind string, body []byte) ([]byte, error) {
	body[0] = formatPlain
	if b.Codec != nil {
		enc, err := b.Codec.Encode(kind, body[headSize:])
		if err != nil {
			return nil, fmt.Errorf("encoding a %s: %w; nothing was written", kind, err)
		}
		key := b.Codec.KeyID()
		if len(key) > 255 {
			return nil, fmt.Errorf("encoding a %s: the key id has %d bytes, at most 255 fit; nothing was written", kind, len(key))
		}
		body = make([]byte, headSize, headSize+1+len(key)+len(enc))
		body[0] = formatEncoded
		body = append(append(append(body, byte(len(key))), key...), enc...)
	}
	binary.BigEndian.PutUint32(body[1:], checksum(body))
	return body, nil
}

// checksum is of what follows the head.
func checksum(body []byte) uint32 {
	return crc32.Checksum(body[headSize:], crc32.MakeTable(crc32.Castagnoli))
}

// Unpack reads a stored body. where names the row in errors.
func (b Box) Unpack(kind, where string, body []byte) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, &DamagedError{Kind: kind, Where: where, Err: err} }
	if len(body) < headSize {
		return fail(errors.New("it is truncated"))
	}
	if binary.BigEndian.Uint32(body[1:]) != checksum(body) {
		return fail(errors.New("its checksum does not fit"))
	}
	rest := body[headSize:]
	switch body[0] {
	case formatPlain:
		return rest, nil
	case formatEncoded:
		if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
			return fail(errors.New("it is truncated"))
		}
		key := string(rest[1 : 1+rest[0]])
		if b.Codec == nil {
			return fail(fmt.Errorf("it was written under key %q and no codec is set", key))
		}
		out, err := b.Codec.Decode(kind, key, rest[1+len(key):])
		if err != nil {
			return fail(err)
		}
		return out, nil
	}
	return fail(fmt.Errorf("it has the unknown format %d", body[0]))
}

func (b Box) packJSON(kind string, v any) ([]byte, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w; nothing was written", kind, err)
	}
	return b.Pack(kind, doc)
}

func (b Box) unpackJSON(kind, where string, body []byte, v any) error {
	doc, err := b.Unpack(kind, where, body)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	switch {
	case err == nil && d.InputOffset() != int64(len(doc)):
		err = errors.New("something follows its end")
	case err == nil && doc[0] != '{':
		err = errors.New("it is no object")
	}
	if err != nil {
		return &DamagedError{Kind: kind, Where: where, Err: err}
	}
	return nil
}

// lacks says that a body was read and has no such thing.
func lacks(kind, where, what string) error {
	return &DamagedError{Kind: kind, Where: where, Err: errors.New("it has no " + what)}
}
