package storage

// Codec encodes bodies at the storage border: compression, encryption. Index fields never pass it. It is safe for
// concurrent use and deterministic enough that Decode(Encode(x)) is x.
type Codec interface {
	// KeyID names the key that Encode uses now; it is stored beside each body in the clear.
	KeyID() string
	// Encode turns a body of a kind into what is stored.
	Encode(kind string, body []byte) ([]byte, error)
	// Decode turns it back, under the key that was stored with it. An unknown key is an error.
	Decode(kind, keyID string, body []byte) ([]byte, error)
}
