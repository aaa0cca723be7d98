// The tests' mechanism: HMAC with a key that all parties share. It secures nothing.

package gss

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"sync/atomic"
	"time"
)

// A fakeRealm makes both ends of contexts.
type fakeRealm struct {
	key    []byte
	legs   int           // exchanges for a context; 0: 1
	life   time.Duration // of a context; 0: a day
	now    func() time.Time
	starts atomic.Int32 // initiators started
	slow   time.Duration
	fails  atomic.Pointer[error]        // Start's error
	fault  func(principal string) error // Accept's error for a proper token; nil: none
}

func newFakeRealm() *fakeRealm {
	return &fakeRealm{key: []byte("a key that everyone knows"), now: time.Now}
}

func (r *fakeRealm) lifetime() time.Duration {
	if r.life == 0 {
		return 24 * time.Hour
	}
	return r.life
}

func (r *fakeRealm) mac(parts ...string) []byte {
	h := hmac.New(sha256.New, r.key)
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

const (
	fakeNonce = 16
	fakeMIC   = 32
)

// token returns nonce, MAC and principal.
func (r *fakeRealm) token(principal, nonce string) []byte {
	return append(append([]byte(nonce), r.mac("first", principal, nonce)...), principal...)
}

// fakeAcceptor accepts one creation: it has the state of earlier legs.
type fakeAcceptor struct {
	realm     *fakeRealm
	leg       int
	principal string
	nonce     string
}

func (a *fakeAcceptor) Accept(token []byte) (Context, []byte, error) {
	r := a.realm
	if len(token) < fakeNonce+fakeMIC {
		return nil, nil, &Error{DefectiveToken, 7, "short token", ReasonToken}
	}
	nonce, principal := string(token[:fakeNonce]), string(token[fakeNonce+fakeMIC:])
	if !hmac.Equal(token[fakeNonce:fakeNonce+fakeMIC], r.mac("first", principal, nonce)) {
		return nil, nil, &Error{DefectiveToken, 8, "wrong token", ReasonAuthenticator}
	}
	if a.leg > 0 && (nonce != a.nonce || principal != a.principal) {
		return nil, nil, errors.New("the token of another context")
	}
	if r.fault != nil {
		if err := r.fault(principal); err != nil {
			return nil, nil, err
		}
	}
	reply := r.mac("reply", principal, nonce)
	if a.leg+1 < r.legs {
		return nil, reply, &ContinueError{Next: &fakeAcceptor{r, a.leg + 1, principal, nonce}}
	}
	return r.context(principal, nonce, true), reply, nil
}

type fakeInitiator struct {
	realm     *fakeRealm
	principal string
	nonce     string
	leg       int
}

func (r *fakeRealm) initiator(_ context.Context, user string) (Initiator, error) {
	return &fakeInitiator{realm: r, principal: user + "@TEST"}, nil
}

func (i *fakeInitiator) Start(ctx context.Context) ([]byte, error) {
	i.realm.starts.Add(1)
	if e := i.realm.fails.Load(); e != nil {
		return nil, *e
	}
	select {
	case <-time.After(i.realm.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	nonce := make([]byte, fakeNonce)
	_, _ = rand.Read(nonce)
	i.nonce = string(nonce)
	return i.realm.token(i.principal, i.nonce), nil
}

func (i *fakeInitiator) Finish(reply []byte) (Context, error) {
	if !hmac.Equal(reply, i.realm.mac("reply", i.principal, i.nonce)) {
		return nil, errors.New("wrong reply token")
	}
	if i.leg++; i.leg < i.realm.legs {
		return nil, &ContinueError{Token: i.realm.token(i.principal, i.nonce)}
	}
	return i.realm.context(i.principal, i.nonce, false), nil
}

// A fakeContext has a key for each direction.
type fakeContext struct {
	principal string
	ends      time.Time
	send      sync.Pool // of hash.Hash
	receive   sync.Pool
	block     cipher.Block
	wraps     atomic.Uint64
	onVerify  atomic.Pointer[func()] // runs in VerifyMIC
}

func (r *fakeRealm) context(principal, nonce string, acceptor bool) *fakeContext {
	x := &fakeContext{principal: principal, ends: r.now().Add(r.lifetime())}
	from := [2][]byte{r.mac("from initiator", nonce), r.mac("from acceptor", nonce)}
	x.send.New = func() any { return hmac.New(sha256.New, from[b2i(acceptor)]) }
	x.receive.New = func() any { return hmac.New(sha256.New, from[1-b2i(acceptor)]) }
	x.block, _ = aes.NewCipher(r.mac("seal", nonce)[:16])
	return x
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *fakeContext) Principal() string         { return x.principal }
func (x *fakeContext) Expires() time.Time        { return x.ends }
func (x *fakeContext) Overhead() (mic, wrap int) { return fakeMIC, 8 + fakeMIC }

func sumOf(p *sync.Pool, dst []byte, parts [][]byte) []byte {
	h := p.Get().(hash.Hash)
	h.Reset()
	for _, b := range parts {
		h.Write(b)
	}
	dst = h.Sum(dst)
	p.Put(h)
	return dst
}

func (x *fakeContext) MIC(dst []byte, parts ...[]byte) []byte {
	return sumOf(&x.send, dst, parts)
}

var errFakeMIC = errors.New("fake: wrong MIC")

func (x *fakeContext) VerifyMIC(token []byte, parts ...[]byte) error {
	if f := x.onVerify.Load(); f != nil {
		(*f)()
	}
	// Without an allocation, as in a real mechanism.
	space := micSpace.Get().(*[fakeMIC]byte)
	defer micSpace.Put(space)
	if !hmac.Equal(token, sumOf(&x.receive, space[:0], parts)) {
		return errFakeMIC
	}
	return nil
}

var micSpace = sync.Pool{New: func() any { return new([fakeMIC]byte) }}

// Wrap's token is a counter, the sealed bytes, and a MAC over both.
func (x *fakeContext) Wrap(dst []byte, parts ...[]byte) []byte {
	at := len(dst)
	n := x.wraps.Add(1)
	dst = binary.BigEndian.AppendUint64(dst, n)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	x.stream(dst[at:at+8], dst[at+8:])
	return sumOf(&x.send, dst, [][]byte{dst[at:]})
}

func (x *fakeContext) stream(counter, b []byte) {
	iv := make([]byte, 16)
	copy(iv, counter)
	cipher.NewCTR(x.block, iv).XORKeyStream(b, b)
}

func (x *fakeContext) Unwrap(token []byte) ([]byte, error) {
	if len(token) < 8+fakeMIC {
		return nil, errFakeMIC
	}
	sealed := token[:len(token)-fakeMIC]
	if err := x.VerifyMIC(token[len(sealed):], sealed); err != nil {
		return nil, err
	}
	x.stream(sealed[:8], sealed[8:])
	return sealed[8:], nil
}
