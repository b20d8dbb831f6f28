package storage

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// AES makes a Codec that encrypts bodies with AES-GCM under the key of the id now. The other keys read what was written
// under them, so keys are changed by adding one: rows are never rewritten. A key has 16, 24 or 32 bytes; it is good for
// four billion bodies. What was written without a codec stays readable. A body is bound to its kind and key, and another
// key, or one byte altered, is an error.
func AES(now string, keys map[string][]byte) (Codec, error) {
	c := aesCodec{now, map[string]cipher.AEAD{}}
	for id, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("storage: key %q: it has %d bytes, and not 16, 24 or 32", id, len(key))
		}
		if c.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("storage: key %q: %w", id, err)
		}
	}
	if c.keys[now] == nil {
		return nil, fmt.Errorf("storage: there is no key %q to write with; there are %q", now, slices.Sorted(maps.Keys(keys)))
	}
	return c, nil
}

type aesCodec struct {
	now  string
	keys map[string]cipher.AEAD
}

func (c aesCodec) KeyID() string { return c.now }

func (c aesCodec) Encode(kind string, body []byte) ([]byte, error) {
	return c.keys[c.now].Seal(nil, nil, body, []byte(c.now+"\x00"+kind)), nil
}

func (c aesCodec) Decode(kind, keyID string, body []byte) ([]byte, error) {
	k := c.keys[keyID]
	if k == nil {
		return nil, fmt.Errorf("it was written under key %q, which is not given", keyID)
	}
	out, err := k.Open(nil, nil, body, []byte(keyID+"\x00"+kind))
	if err != nil {
		return nil, errors.New("the key is another one, or it was altered")
	}
	return out, nil
}
