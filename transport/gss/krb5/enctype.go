// The encryption types and their parameters.

package krb5

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"sync"
)

// Numbers of the encryption types (RFC 3962 §7, RFC 8009 §7).
const (
	AES128SHA1 = 17 // aes128-cts-hmac-sha1-96
	AES256SHA1 = 18 // aes256-cts-hmac-sha1-96
	AES128SHA2 = 19 // aes128-cts-hmac-sha256-128
	AES256SHA2 = 20 // aes256-cts-hmac-sha384-192
)

// EnctypeName returns the name of an encryption type, as in krb5.conf.
func EnctypeName(id int32) string {
	if e := enctypeOf(id); e != nil {
		return e.name
	}
	return fmt.Sprintf("enctype %d", id)
}

// An enctype has the parameters of one encryption type. All four use AES in CBC mode with
// ciphertext stealing and an HMAC.
type enctype struct {
	id      int32
	name    string
	keySize int // bytes of the protocol key, and of the AES key
	macKey  int // bytes of the derived keys Kc and Ki
	macSize int // bytes of a checksum, and of the MAC in a ciphertext
	sha2    bool
	newHash func() hash.Hash
	states  sync.Pool // *macState without a key
	probe   sync.Once // sets shortOK
	shortOK bool      // see shortWorks
}

// enctypes are in the order of MIT's default preference.
var enctypes = []*enctype{
	{id: AES256SHA1, name: "aes256-cts-hmac-sha1-96", keySize: 32, macKey: 32, macSize: 12, newHash: sha1.New},
	{id: AES128SHA1, name: "aes128-cts-hmac-sha1-96", keySize: 16, macKey: 16, macSize: 12, newHash: sha1.New},
	{id: AES256SHA2, name: "aes256-cts-hmac-sha384-192", keySize: 32, macKey: 24, macSize: 24, sha2: true, newHash: sha512.New384},
	{id: AES128SHA2, name: "aes128-cts-hmac-sha256-128", keySize: 16, macKey: 16, macSize: 16, sha2: true, newHash: sha256.New},
}

// enctypeOf returns nil for an unsupported type.
func enctypeOf(id int32) *enctype {
	for _, e := range enctypes {
		if e.id == id {
			return e
		}
	}
	return nil
}

// A key is a protocol key (RFC 3961 §2) of a supported enctype.
type key struct {
	et    *enctype
	value []byte
}

// newKey checks the enctype and the length. It keeps value.
func newKey(id int32, value []byte) (key, error) {
	et := enctypeOf(id)
	if et == nil {
		return key{}, fmt.Errorf("krb5: enctype %d is not supported: only %s", id, enctypeNames())
	}
	if len(value) != et.keySize {
		return key{}, fmt.Errorf("krb5: a key of %s with %d bytes, not %d", et.name, len(value), et.keySize)
	}
	return key{et, value}, nil
}

func enctypeNames() string {
	var s string
	for i, e := range enctypes {
		if i > 0 {
			s += ", "
		}
		s += e.name
	}
	return s
}
