package effect

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// KeySize is the size of a ledger's key, in bytes.
const KeySize = 32

// KeyFile returns the key in a file, which it makes, readable by its owner alone, when there is none. Keep it beside the
// database and apart from its backups: without it parameters and receipts cannot be read, and operations in doubt cannot
// be sent again. A file that others can read, or of another size, is refused.
func KeyFile(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	if err := publishKey(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("effect: the key file cannot be made: %w", err)
	}
	return readKey(path) // another process may have been first
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("effect: the key file: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("effect: the key file %s can be read by others (mode %v); take that from them: chmod 600", path, info.Mode().Perm())
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) != KeySize {
		err = fmt.Errorf("effect: the key file %s has %d bytes and not %d; it is no key, and was left as it is", path, len(key), KeySize)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// publishKey makes the file whole or not at all, and never over another.
func publishKey(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// ring holds the keys under which parameters and outcomes are sealed.
type ring struct {
	now  string // id of the key that seals
	keys map[string]cipher.AEAD
}

func newRing(key []byte, old [][]byte) (*ring, error) {
	r := &ring{keys: map[string]cipher.AEAD{}}
	for _, k := range append([][]byte{key}, old...) {
		if len(k) != KeySize {
			return nil, fmt.Errorf("effect: a key has %d bytes, and needs %d; effect.KeyFile makes one", len(k), KeySize)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("pawl.key.1:"), k...))
		id := string(sum[:keyIDSize])
		if r.now == "" {
			r.now = id
		}
		r.keys[id] = aead
	}
	return r, nil
}

const (
	sealed    = 1 // format: AES-256-GCM, after the key's id and a nonce
	keyIDSize = 8
)

// What of an operation is sealed.
const (
	paramsOf  = "params"
	outcomeOf = "outcome" // the receipt, or the words of an error
)

// seal encrypts what belongs to an operation. It opens only as what it was sealed as, for the same operation.
func (r *ring) seal(tenant, effect string, ref Reference, p Print, what string, doc []byte) []byte {
	aead := r.keys[r.now]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	out := append([]byte{sealed}, r.now...)
	out = append(out, nonce...)
	return aead.Seal(out, nonce, doc, []byte(digest("pawl.seal.1", tenant, effect, ref.String(), p.Whole, what)))
}

// open decrypts it.
func (r *ring) open(op *Operation, what string) ([]byte, error) {
	body := op.params
	if what == outcomeOf {
		body = op.outcome
	}
	lost := &LostKeyError{Operation: op.Key, Effect: op.Effect, Ref: op.Ref, What: what}
	if len(body) < 1+keyIDSize || body[0] != sealed {
		lost.Err = errors.New("it is not in a form that this program knows")
		return nil, lost
	}
	id, rest := string(body[1:1+keyIDSize]), body[1+keyIDSize:]
	lost.Key = hex.EncodeToString([]byte(id))
	aead, ok := r.keys[id]
	if !ok {
		lost.Err = errors.New("it is under a key that was not given")
		return nil, lost
	}
	if len(rest) < aead.NonceSize() {
		lost.Err = errors.New("it is truncated")
		return nil, lost
	}
	n := aead.NonceSize()
	doc, err := aead.Open(nil, rest[:n], rest[n:], []byte(digest("pawl.seal.1", op.Tenant, op.Effect, op.Ref.String(), op.Authorised.Whole, what)))
	if err != nil {
		lost.Err = err
		return nil, lost
	}
	return doc, nil
}
