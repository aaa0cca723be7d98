// Floods of half handshakes, and of security contexts that are never used.

package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// floodEnv is the environment variable with the number of attempts in each flood here.
const floodEnv = "NFSRDMA_FLOOD"

// attempts returns the number of attempts.
func attempts(t *testing.T) int {
	t.Helper()
	if s := os.Getenv(floodEnv); s != "" {
		n, err := strconv.Atoi(s)
		must.Succeed(t, err)
		return n
	}
	return some(2000, 20_000)
}

const (
	attackers   = 16 // addresses of attackers, each with one goroutine
	maxContexts = 16384
	// floodPlan and floodPeak limit the server's growth in KB, after a flood and during it. A
	// flood's limits are 1,024 connections, 16,384 contexts and 1,024 contexts in creation.
	floodPlan, floodPeak = 96 << 10, 384 << 10
)

// A siege is a server with security, with two clients beside the attackers.
type siege struct {
	*lone
	n           int
	begin       cost
	clear, safe *watcher // over TCP in clear; with TLS and RPCSEC_GSS
	tls         *tls.Config
}

func besiege(t *testing.T) *siege {
	dir := securedDir(t)
	s := &siege{lone: startLone(t, dir), n: attempts(t)}
	store, err := certs.Open(certs.Options{Authorities: []string{filepath.Join(dir, certs.AuthorityFile)}})
	must.Succeed(t, err)
	s.tls = store.Client("127.0.0.1")
	s.clear, s.safe = s.beside(nil), s.beside(s.tls)
	for range 300 {
		s.clear.await()
		s.safe.await()
	}
	t.Logf("before: in clear %s; with TLS and RPCSEC_GSS %s", s.clear.figures(), s.safe.figures())
	s.begin = s.cost(new(int), new(int), new(int), new(int), new(int))
	return s
}

// beside starts a client that calls GETATTR until the test ends: in clear, or with TLS and
// RPCSEC_GSS.
func (s *siege) beside(cfg *tls.Config) *watcher {
	s.t.Helper()
	opt := nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: -1} // waits as long as necessary
	if cfg != nil {
		opt.TLS = func(string) *tls.Config { return cfg }
	}
	c, err := nfsclient.Dial(bg, s.tcp, opt)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	fs, err := c.Mount(bg, "/x")
	must.Succeed(s.t, err)
	as := fs.Client()
	if cfg != nil {
		users := gss.NewClient(gss.ClientConfig{Initiator: func(context.Context, string) (gss.Initiator, error) { return &openMechanism{}, nil }})
		as = as.AsAuth(oncrpc.FlavorKrb5i, users.Auth("user", transport.ServiceIntegrity), transport.SysCred())
	}
	return watch(s.t, func() error { _, err := as.Getattr(bg, fs.Root()); return err })
}

// end checks the server after a flood, and logs the figures.
func (s *siege) end(what string, took time.Duration) {
	s.t.Helper()
	s.clear.await()
	s.safe.await()
	s.t.Logf("%s: %d in %.1f s; meanwhile in clear %s; with TLS and RPCSEC_GSS %s", what, s.n, took.Seconds(), s.clear.figures(), s.safe.figures())
	c, err := transport.DialTCP(bg, s.tcp, transport.ClientConfig{TLS: s.tls})
	if err != nil {
		s.t.Errorf("a new client after %s: %v", what, err)
	} else {
		c.Close()
	}
	var now cost
	var f gssFigures
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		now, f = s.figures()
		more := now.resident - s.begin.resident
		if (more <= floodPlan || raceOn) && now.descriptors <= s.begin.descriptors+8 && now.goroutines <= s.begin.goroutines+300 {
			break
		}
		if time.Now().After(end) {
			s.t.Errorf("a minute after %s: %v, before %v", what, now, s.begin)
			break
		}
	}
	s.t.Logf("%s: server before: %d KB, peak %d KB, after %v; %+v", what, s.begin.resident, now.peak, now, f)
	if more := now.peak - s.begin.peak; more > floodPeak && !raceOn {
		s.t.Errorf("%s: the server has grown by %d KB meanwhile, want at most %d", what, more, floodPeak)
	}
	if f.contexts > maxContexts {
		s.t.Errorf("%d contexts, want at most %d", f.contexts, maxContexts)
	}
	// Each text is logged once a second at most.
	if most := 100 + 20*int(took.Seconds()); f.lines > most {
		s.t.Errorf("%d log lines in %v, want at most %d", f.lines, took, most)
	}
}

// A watcher repeats a call, and measures it.
type watcher struct {
	t    *testing.T
	mu   sync.Mutex // guards took
	took []time.Duration
	next chan struct{} // a token for each call
}

func watch(t *testing.T, call func() error) *watcher {
	w := &watcher{t: t, next: make(chan struct{})}
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			began := time.Now()
			if err := call(); err != nil {
				t.Errorf("the client beside: %v", err)
				close(w.next)
				<-stop
				return
			}
			w.mu.Lock()
			w.took = append(w.took, time.Since(began))
			w.mu.Unlock()
			select {
			case w.next <- struct{}{}:
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return w
}

// await waits until a call that began after await has ended.
func (w *watcher) await() {
	w.t.Helper()
	for range 2 {
		select {
		case <-w.next:
		case <-time.After(5 * time.Minute):
			w.t.Fatal("the client beside makes no progress")
		}
	}
}

// figures describes the calls since the last figures.
func (w *watcher) figures() string {
	w.mu.Lock()
	took := w.took
	w.took = nil
	w.mu.Unlock()
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(time.Microsecond)
	}
	return fmt.Sprintf("%d GETATTRs, median %v, 99 %% in %v, longest %v", len(took), at(0.5), at(0.99), at(1))
}

// flood divides the attempts among the attackers, each with an address.
func (s *siege) flood(attack func(local string, n int) error) time.Duration {
	s.t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range attackers {
		wg.Go(func() {
			if err := attack(fmt.Sprintf("127.0.1.%d", i+1), s.n/attackers); err != nil {
				s.t.Errorf("attacker %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

func dialFrom(local, addr string) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	return c.(*net.TCPConn), nil
}

// tlsProbe returns a probe of RPC-with-TLS, as a record.
func tlsProbe() []byte {
	e := xdr.NewEncoder(nil)
	h := oncrpc.CallHeader{XID: peer.XID(), Prog: nfs3.Program, Vers: nfs3.Version, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorTLS}}
	h.EncodeXDR(e)
	return append(peer.Mark(e.Len(), true), e.Bytes()...)
}

// probeAnswer is the size of the answer to a probe, with its mark.
const probeAnswer = 36

// clientHello returns the first bytes of a handshake.
func clientHello(t *testing.T, cfg *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() { _ = tls.Client(theirs, cfg).Handshake() }()
	defer ours.Close()
	head := make([]byte, 5)
	_, err := io.ReadFull(ours, head)
	must.Succeed(t, err)
	rest := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, err = io.ReadFull(ours, rest)
	must.Succeed(t, err)
	return append(head, rest...)
}

// held is how many connections an attacker keeps in the middle of a handshake.
const held = 100

// TestHalfHandshakes: clients probe, and then leave or stay: before the handshake, within its first
// message, or after the server's answer. Their cost is bounded, and other clients work.
func TestHalfHandshakes(t *testing.T) {
	s := besiege(t)
	probe, hello := tlsProbe(), clientHello(t, s.tls)
	says := [][]byte{nil, hello[:3], hello[:len(hello)/2], hello, bytes.Repeat([]byte{0x80}, 40)}
	var cut atomic.Int64
	took := s.flood(func(local string, n int) error {
		var open []*net.TCPConn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		for i := range n {
			c, err := dialFrom(local, s.tcp)
			if err != nil {
				return err
			}
			c.Write(probe)
			if i%8 > 0 { // else without waiting for the answer
				if _, err := io.ReadFull(c, make([]byte, probeAnswer)); err != nil {
					cut.Add(1) // to make room for another
				}
			}
			c.Write(says[i%len(says)])
			if i%3 > 0 {
				c.SetLinger(0) // ends without TIME-WAIT, of which the machine has a limited number
				c.Close()
				continue
			}
			if open = append(open, c); len(open) > held {
				open[0].Close()
				open = open[1:]
			}
		}
		return nil
	})
	t.Logf("%d connections had no answer to their probe", cut.Load())
	s.end("half handshakes", took)
}

// A creator calls INIT over one connection.
type creator struct {
	c       *net.TCPConn
	out, in []byte
}

// initsAtOnce is the number of INITs in one write.
const initsAtOnce = 16

// inits sends an INIT for each token, and counts the replies by major status.
func (p *creator) inits(tokens [][]byte, majors map[uint32]int) error {
	p.out = p.out[:0]
	for _, token := range tokens {
		e := xdr.NewEncoder(nil)
		cred := make([]byte, 20)
		cred[3], cred[7], cred[15] = 1, 1, 1 // version, INIT, service
		h := oncrpc.CallHeader{XID: peer.XID(), Prog: nfs3.Program, Vers: nfs3.Version, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: cred}}
		h.EncodeXDR(e)
		e.Opaque(token)
		p.out = append(append(p.out, peer.Mark(e.Len(), true)...), e.Bytes()...)
	}
	if _, err := p.c.Write(p.out); err != nil {
		return err
	}
	for range tokens {
		p.in = slices.Grow(p.in[:0], 4)[:4]
		if _, err := io.ReadFull(p.c, p.in); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(p.in) &^ (1 << 31))
		p.in = slices.Grow(p.in[:0], n)[:n]
		if _, err := io.ReadFull(p.c, p.in); err != nil {
			return err
		}
		var h oncrpc.ReplyHeader
		d := xdr.NewDecoder(p.in)
		if h.DecodeXDR(d); !h.OK() {
			return fmt.Errorf("reply %+v", h)
		}
		d.Opaque(len(p.in)) // the handle
		majors[d.Uint32()]++
	}
	return nil
}

// creations floods with INITs whose tokens come from token, and returns the number of replies by
// major status.
func (s *siege) creations(token func(r *rand.Rand) []byte) (majors map[uint32]int, took time.Duration) {
	s.t.Helper()
	majors = map[uint32]int{}
	var mu sync.Mutex // guards majors
	took = s.flood(func(local string, n int) error {
		c, err := dialFrom(local, s.tcp)
		if err != nil {
			return err
		}
		defer c.Close()
		p, own := creator{c: c}, map[uint32]int{}
		r := rand.New(rand.NewPCG(1, uint64(local[len(local)-1])))
		for n > 0 {
			tokens := make([][]byte, min(n, initsAtOnce))
			for i := range tokens {
				tokens[i] = token(r)
			}
			n -= len(tokens)
			if err := p.inits(tokens, own); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for major, n := range own {
			majors[major] += n
		}
		return nil
	})
	return majors, took
}

// TestContextsThatAreNeverUsed: hosts create contexts without using them, and leave some in the
// middle of their creation. The contexts' number is bounded, and a client keeps its context.
func TestContextsThatAreNeverUsed(t *testing.T) {
	s := besiege(t)
	majors, took := s.creations(func(r *rand.Rand) []byte {
		if r.IntN(4) == 0 {
			return []byte(tokenHalf)
		}
		return []byte(tokenWhole)
	})
	whole, half := majors[gss.Complete], majors[gss.ContinueNeeded]
	if want := s.n / attackers * attackers; whole+half != want || whole < half {
		t.Errorf("replies by status %v, want %d that succeed", majors, want)
	}
	s.end(fmt.Sprintf("%d contexts and %d in creation", whole, half), took)
	_, f := s.figures()
	if f.created != whole+1 {
		t.Errorf("%d contexts were created, want %d and 1 of the client beside", f.created, whole)
	}
}

// TestGarbageTokens: no context results from random bytes, from frames with random bytes, or from
// Kerberos requests under a wrong key.
func TestGarbageTokens(t *testing.T) {
	s := besiege(t)
	majors, took := s.creations(func(r *rand.Rand) []byte {
		b := make([]byte, 40+r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		switch r.IntN(3) {
		case 0:
			return b
		case 1:
			return kerberosToken(func(f *cryptobyte.Builder) { f.AddBytes(b) })
		}
		return kerberosToken(func(f *cryptobyte.Builder) { addRequest(f, b) })
	})
	if majors[gss.Complete]+majors[gss.ContinueNeeded] > 0 || majors[gss.DefectiveToken] == 0 || majors[gss.Failure] == 0 {
		t.Errorf("replies by status %x, want only failures, of several kinds", majors)
	}
	s.end("garbage tokens", took)
	if _, f := s.figures(); f.contexts != 1 || f.created != 1 {
		t.Errorf("%+v, want the one context of the client beside", f)
	}
}

// kerberosToken returns a token of Kerberos with the identifier of an AP-REQ.
func kerberosToken(add func(*cryptobyte.Builder)) []byte {
	var b cryptobyte.Builder
	b.AddASN1(asn1.Tag(0x60), func(b *cryptobyte.Builder) {
		b.AddBytes([]byte(krb5.OID + "\x01\x00"))
		add(b)
	})
	return b.BytesOrPanic()
}

// addRequest adds an AP-REQ for the server (RFC 4120 §5.5.1). Its encrypted parts are arbitrary.
func addRequest(b *cryptobyte.Builder, cipher []byte) {
	field := func(b *cryptobyte.Builder, n uint8, add func(*cryptobyte.Builder)) {
		b.AddASN1(asn1.Tag(n).ContextSpecific().Constructed(), add)
	}
	number := func(v int64) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) { b.AddASN1Int64(v) }
	}
	text := func(s string) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.GeneralString, func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
		}
	}
	sequence := func(fields ...func(*cryptobyte.Builder)) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
				for i, add := range fields {
					field(b, uint8(i), add)
				}
			})
		}
	}
	application := func(n uint8, add func(*cryptobyte.Builder)) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) { b.AddASN1(asn1.Tag(0x60|n), add) }
	}
	names := func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { text("nfs")(b); text("server")(b) })
	}
	sealed := sequence(number(krb5.AES256SHA2), number(1), func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.OCTET_STRING, func(b *cryptobyte.Builder) { b.AddBytes(cipher) })
	})
	ticket := application(1, sequence(number(5), text("TEST"), sequence(number(3), names), sealed))
	mutual := func(b *cryptobyte.Builder) { b.AddASN1BitString([]byte{0x20, 0, 0, 0}) }
	application(14, sequence(number(5), number(14), mutual, ticket, sealed))(b)
}
