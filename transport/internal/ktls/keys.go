// Secrets of a handshake, and the keys derived from them (RFC 8446 §7.2, §7.3).

package ktls

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// secrets receive the traffic secrets of one handshake. crypto/tls writes them to a KeyLogWriter,
// and each handshake has its own, so no line can belong to another connection.
type secrets struct {
	client, server []byte // application traffic secrets, by sender
	next           io.Writer
}

// config returns a copy of cfg that logs its secrets to s, and also to the writer of cfg.
func (s *secrets) config(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	s.next = cfg.KeyLogWriter
	s.adapt(cfg)
	// A server can choose its configuration by the client's first message.
	if choose := cfg.GetConfigForClient; choose != nil {
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return chosen, err
			}
			chosen = chosen.Clone()
			s.next = chosen.KeyLogWriter
			s.adapt(chosen)
			return chosen, nil
		}
	}
	return cfg
}

func (s *secrets) adapt(cfg *tls.Config) {
	cfg.KeyLogWriter = s
	cfg.SessionTicketsDisabled = true
	cfg.ClientSessionCache = nil
}

// Write accepts a line of the NSS key log format: label, client random, secret.
func (s *secrets) Write(line []byte) (int, error) {
	if fields := bytes.Fields(line); len(fields) == 3 {
		switch string(fields[0]) {
		case "CLIENT_TRAFFIC_SECRET_0":
			s.client = decodeSecret(fields[2])
		case "SERVER_TRAFFIC_SECRET_0":
			s.server = decodeSecret(fields[2])
		}
	}
	if s.next != nil {
		return s.next.Write(line)
	}
	return len(line), nil
}

func decodeSecret(text []byte) []byte {
	b := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(b, text); err != nil {
		return nil
	}
	return b
}

// forget erases the secrets.
func (s *secrets) forget() {
	clear(s.client)
	clear(s.server)
	s.client, s.server = nil, nil
}

// A suite has the parameters of a TLS 1.3 cipher suite.
type suite struct {
	cipher uint16 // the kernel's number
	key    int    // length in bytes
	salt   int    // length of the IV's first part, a separate field in the kernel's structure
	size   int    // length of a secret in bytes
	hash   func() hash.Hash
}

// ivLength is the length of an IV in bytes, the same for all suites.
const ivLength = 12

var suites = map[uint16]*suite{
	tls.TLS_AES_128_GCM_SHA256:       {cipherAESGCM128, 16, 4, sha256.Size, sha256.New},
	tls.TLS_AES_256_GCM_SHA384:       {cipherAESGCM256, 32, 4, sha512.Size384, sha512.New384},
	tls.TLS_CHACHA20_POLY1305_SHA256: {cipherChaCha20Poly1305, 32, 0, sha256.Size, sha256.New},
}

// expand is HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
func (s *suite) expand(secret []byte, label string, length int) []byte {
	const prefix = "tls13 "
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(info, prefix+label...)
	info = append(info, 0)
	out, err := hkdf.Expand(s.hash, secret, string(info), length)
	if err != nil {
		panic("ktls: " + err.Error()) // only for lengths that no suite has
	}
	return out
}

// keys derives key and IV of a direction from its traffic secret (RFC 8446 §7.3).
func (s *suite) keys(secret []byte) (key, iv []byte) {
	return s.expand(secret, "key", s.key), s.expand(secret, "iv", ivLength)
}

// update derives the next traffic secret, after a KeyUpdate (RFC 8446 §7.2).
func (s *suite) update(secret []byte) []byte {
	return s.expand(secret, "traffic upd", s.size)
}

// info returns the kernel's structure for the keys derived from a secret: a tls_crypto_info, then
// IV, key, salt and record number. The number is 0, because it starts again with each key (RFC 8446
// §5.3).
func (s *suite) info(secret []byte) []byte {
	key, iv := s.keys(secret)
	b := binary.NativeEndian.AppendUint16(nil, tls.VersionTLS13)
	b = binary.NativeEndian.AppendUint16(b, s.cipher)
	b = append(b, iv[s.salt:]...)
	b = append(b, key...)
	b = append(b, iv[:s.salt]...)
	clear(key)
	return append(b, make([]byte, 8)...)
}
