// The key schedule, with the vectors of RFC 8448.

package ktls

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// Secrets of the simple handshake (RFC 8448 §3), for TLS_AES_128_GCM_SHA256.
const (
	clientSecret = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"
	serverSecret = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"
)

func TestKeysOfRFC8448(t *testing.T) {
	u := suites[tls.TLS_AES_128_GCM_SHA256]
	for _, c := range []struct{ direction, secret, key, iv string }{
		{"server", serverSecret, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"},
		{"client", clientSecret, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"},
	} {
		key, iv := u.keys(must.Hex(t, c.secret))
		if !bytes.Equal(key, must.Hex(t, c.key)) || !bytes.Equal(iv, must.Hex(t, c.iv)) {
			t.Errorf("%s: key %x, IV %x; want %s, %s", c.direction, key, iv, c.key, c.iv)
		}
	}
}

// A record of the RFC opens with the key and the IV in the kernel's structure.
func TestRecordOfRFC8448(t *testing.T) {
	record := must.Hex(t, "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4")
	k := parseInfo(t, suites[tls.TLS_AES_128_GCM_SHA256].info(must.Hex(t, clientSecret)))
	plain, err := k.open(record)
	must.Succeed(t, err)
	var want []byte
	for i := range byte(50) {
		want = append(want, i)
	}
	if !bytes.Equal(plain, append(want, typeData)) {
		t.Errorf("plain text %x, want %x and type %d", plain, want, typeData)
	}
}

// The kernel's structures have these sizes and fields (linux/tls.h).
func TestInfoLayout(t *testing.T) {
	for id, want := range map[uint16]struct{ cipher, size int }{
		tls.TLS_AES_128_GCM_SHA256:       {51, 40},
		tls.TLS_AES_256_GCM_SHA384:       {52, 56},
		tls.TLS_CHACHA20_POLY1305_SHA256: {54, 56},
	} {
		u := suites[id]
		secret := bytes.Repeat([]byte{7}, u.size)
		key, iv := u.keys(secret)
		b := u.info(secret)
		must.Equal(t, "size", len(b), want.size)
		must.Equal(t, "version", binary.NativeEndian.Uint16(b), tls.VersionTLS13)
		must.Equal(t, "cipher", int(binary.NativeEndian.Uint16(b[2:])), want.cipher)
		layout := bytes.Join([][]byte{iv[u.salt:], key, iv[:u.salt], make([]byte, 8)}, nil)
		if !bytes.Equal(b[4:], layout) {
			t.Errorf("%s: %x, want %x", tls.CipherSuiteName(id), b[4:], layout)
		}
	}
}

// A directionKey encrypts or decrypts in the place of the kernel.
type directionKey struct {
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

// parseInfo reads a tls12_crypto_info_aes_gcm_128 or _256.
func parseInfo(t testing.TB, b []byte) *directionKey {
	t.Helper()
	size := map[uint16]int{51: 16, 52: 32}[binary.NativeEndian.Uint16(b[2:])]
	if size == 0 || len(b) != 4+8+size+4+8 {
		t.Fatalf("a structure of %d bytes: %x", len(b), b)
	}
	iv, key, salt := b[4:12], b[12:12+size], b[12+size:16+size]
	block, err := aes.NewCipher(key)
	must.Succeed(t, err)
	aead, err := cipher.NewGCM(block)
	must.Succeed(t, err)
	return &directionKey{aead, append(append([]byte{}, salt...), iv...), binary.BigEndian.Uint64(b[16+size:])}
}

// nonce returns the nonce of the next record (RFC 8446 §5.3).
func (k *directionKey) nonce() []byte {
	n := bytes.Clone(k.iv)
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], k.seq)
	for i, b := range seq {
		n[4+i] ^= b
	}
	k.seq++
	return n
}

// open decrypts a record, and returns content, type and padding.
func (k *directionKey) open(record []byte) ([]byte, error) {
	return k.aead.Open(nil, k.nonce(), record[headerLength:], record[:headerLength])
}

// seal encrypts a record.
func (k *directionKey) seal(recordType byte, p []byte) []byte {
	header := []byte{typeData, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(p)+1+k.aead.Overhead()))
	return k.aead.Seal(header, k.nonce(), append(bytes.Clone(p), recordType), header)
}
