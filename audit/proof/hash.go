package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Hash is a SHA-256 sum. As text it is 64 hexadecimal digits.
type Hash [sha256.Size]byte

// String is the text of a hash.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero says that there is no hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("a hash has %d hexadecimal digits, not %d characters", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Actor is who acted.
type Actor struct {
	ID     string   `json:"id"`
	Groups []string `json:"groups,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Door   string   `json:"door,omitempty"`
}

// Row is one row of the trail. Its tenant is said once, by what holds the row.
type Row struct {
	Tenant    string    `json:"-"`
	Thread    string    `json:"thread,omitempty"`
	N         int64     `json:"n"`
	Lineage   string    `json:"lineage,omitempty"`
	Run       string    `json:"run,omitempty"`
	Attempt   string    `json:"attempt,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Approval  string    `json:"approval,omitempty"`
	Effect    string    `json:"effect,omitempty"`
	Ref       string    `json:"ref,omitempty"`
	Question  string    `json:"question,omitempty"`
	Actor     Actor     `json:"actor,omitzero"`
	Action    string    `json:"action"`
	Before    string    `json:"before,omitempty"`
	After     string    `json:"after,omitempty"`
	Digest    string    `json:"digest,omitempty"`
	View      string    `json:"view,omitempty"`
	Receipt   string    `json:"receipt,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	At        time.Time `json:"at"`
	Prev      Hash      `json:"prev,omitzero"` // hash of the row before it in its chain; zero: the chain starts here
	Hash      Hash      `json:"hash,omitzero"` // zero: written before there were chains
}

// The domains of the three hashes. A new encoding takes a new number, and rows that use it say so.
const (
	rowDomain  = "pawl.audit.row.1\n"
	headDomain = "pawl.audit.log.1\n"
	leafDomain = "\x00" // RFC 6962, section 2.1
)

// Sum is the hash that a row has: of all its fields but Hash, each with its length, in a fixed order.
func (r *Row) Sum() Hash {
	b := make([]byte, 0, 1024)
	b = append(b, rowDomain...)
	b = text(b, r.Tenant, r.Thread)
	b = number(b, r.N)
	b = text(b, r.Lineage, r.Run, r.Attempt, r.Operation, r.Approval, r.Effect, r.Ref, r.Question, r.Actor.ID, r.Actor.Kind, r.Actor.Door)
	b = number(b, int64(len(r.Actor.Groups)))
	b = text(b, r.Actor.Groups...)
	b = text(b, r.Action, r.Before, r.After, r.Digest, r.View, r.Receipt, r.Reason)
	b = number(b, r.At.Unix())
	b = number(b, int64(r.At.Nanosecond()))
	b = append(b, r.Prev[:]...)
	return sha256.Sum256(b)
}

func text(b []byte, list ...string) []byte {
	for _, s := range list {
		b = append(number(b, int64(len(s))), s...)
	}
	return b
}

func number(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

// Leaf is what the log keeps of a row: the hash of a leaf of an RFC 6962 tree whose entries are the rows' hashes.
func Leaf(row Hash) Hash { return sha256.Sum256(append([]byte(leafDomain), row[:]...)) }

// Head is the log's head once leaf is at pos and prev was the head before it; the first prev is zero.
func Head(prev Hash, pos int64, leaf Hash) Hash {
	b := number(append(make([]byte, 0, 96), headDomain...), pos)
	return sha256.Sum256(append(append(b, prev[:]...), leaf[:]...))
}
