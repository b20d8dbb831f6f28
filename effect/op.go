package effect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Reference names a business obligation: which invoice is paid, which order is shipped. It comes from the business,
// never from a model, a clock, a run or a position in the graph. It is stored in the clear.
type Reference struct {
	Kind string `json:"kind"` // "invoice"
	ID   string `json:"id"`   // "17"
}

// Ref is the reference of a kind with an id, as in Ref("invoice", "17").
func Ref(kind, id string) Reference { return Reference{kind, id} }

// String is kind:id.
func (r Reference) String() string { return r.Kind + ":" + r.ID }

// maxReference bounds a reference, in bytes.
const maxReference = 512

func (r Reference) fault() error {
	switch {
	case r.Kind == "" || r.ID == "":
		return errors.New("the reference needs a kind and an id")
	case strings.Contains(r.Kind, ":"):
		return fmt.Errorf("the kind %q of the reference has a colon", r.Kind)
	case len(r.String()) > maxReference || !utf8.ValidString(r.String()):
		return fmt.Errorf("the reference has %d bytes; at most %d of valid UTF-8 fit", len(r.String()), maxReference)
	}
	return nil
}

func parseRef(s string) Reference {
	kind, id, _ := strings.Cut(s, ":")
	return Reference{kind, id}
}

// Op is one dispatch, or look-up, of an operation, for the function that does it.
type Op struct {
	// Key is the same in every attempt of the operation, and of no other: 64 hexadecimal digits. Give it to the target.
	Key      string
	Ref      Reference
	Tenant   string
	Attempt  int       // counts from 1
	Deadline time.Time // the context ends then
	Sent     time.Time // for a look-up: when the last attempt was dispatched
}

// UUID is the key for targets that want a UUID (version 8, 36 characters).
func (o Op) UUID() string { return uuidOf("pawl.uuid.1:"+o.Key, 8) }

// mint makes an operation's key. It is called once, at the reservation, and the result is stored.
func mint(tenant, effect string, ref Reference, revision int64, p Print, policy string) string {
	return digest("pawl.operation.1", tenant, effect, ref.Kind, ref.ID, strconv.FormatInt(revision, 10), strconv.Itoa(p.Version), p.Material, policy)
}

// digest is the SHA-256 of texts, each with its length, in hexadecimal.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(p)))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}
