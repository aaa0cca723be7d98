// Connections against crypto/tls and openssl, with a socket in user space.

package ktls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// patience limits a test's wait for its peer.
const patience = time.Minute

func tcpPair(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	b, err := l.Accept()
	must.Succeed(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	// A test that waits in vain fails.
	must.Succeed(t, a.SetDeadline(time.Now().Add(patience)), b.SetDeadline(time.Now().Add(patience)))
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

var clientConfig = &tls.Config{InsecureSkipVerify: true}

// A pair is our side in the "kernel", and crypto/tls as the peer.
type pair struct {
	ours   *Conn
	socket *softSocket
	peer   *tls.Conn
	wire   *net.TCPConn // the peer's
}

// shake runs the handshake on both sides.
func shake(t testing.TB, h *Handshake, peer *tls.Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- peer.Handshake() }()
	must.Succeed(t, h.TLS.Handshake(), <-done)
}

// connect makes a pair, with our side as server or as client.
func connect(t testing.TB, server bool) *pair {
	t.Helper()
	a, b := tcpPair(t)
	serverConfig := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	var h *Handshake
	var peer *tls.Conn
	if server {
		h, peer = Server(a, serverConfig), tls.Client(b, clientConfig)
	} else {
		h, peer = Client(a, clientConfig), tls.Server(b, serverConfig)
	}
	shake(t, h, peer)
	s := newSoftSocket(t, a)
	c, err := h.take(s)
	must.Succeed(t, err)
	return &pair{c, s, peer, b}
}

func bothRoles(t *testing.T, f func(t *testing.T, server bool)) {
	t.Run("server", func(t *testing.T) { f(t, true) })
	t.Run("client", func(t *testing.T) { f(t, false) })
}

func TestBulkBothWays(t *testing.T) {
	bothRoles(t, func(t *testing.T, server bool) {
		p := connect(t, server)
		sent := make([]byte, 3<<20)
		rng := mathrand.NewChaCha8([32]byte{1})
		rng.Read(sent)
		errs := make(chan error, 2)
		go func() {
			list := net.Buffers{sent[:10], sent[10:100_000], sent[100_000:]}
			_, err := p.ours.WriteBuffers(&list)
			errs <- err
		}()
		go func() { _, err := p.peer.Write(sent); errs <- err }()
		got := make([]byte, len(sent))
		read := make(chan error, 1)
		go func() { _, err := io.ReadFull(p.peer, got); read <- err }()
		back := make([]byte, len(sent))
		_, err := io.ReadFull(p.ours, back)
		must.Succeed(t, err, <-read, <-errs, <-errs)
		if !bytes.Equal(got, sent) || !bytes.Equal(back, sent) {
			t.Errorf("wrong bytes: there %v, here %v; want both the same", bytes.Equal(got, sent), bytes.Equal(back, sent))
		}
	})
}

// Application data that arrives with the end of the handshake is left for the kernel.
func TestDataBehindHandshakeIsLeftToKernel(t *testing.T) {
	a, b := tcpPair(t)
	h := Server(a, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
	// The peer's Finished and its data are in one segment: written while held back.
	held := &holdConn{Conn: b}
	peer := tls.Client(held, clientConfig)
	done := make(chan error, 1)
	go func() {
		err := peer.Handshake()
		if err == nil {
			_, err = peer.Write([]byte("early"))
		}
		done <- errors.Join(err, held.flush())
	}()
	must.Succeed(t, h.TLS.Handshake(), <-done)
	c, err := h.take(newSoftSocket(t, a))
	must.Succeed(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(c, got)
	must.Succeed(t, err)
	must.Equal(t, "data", string(got), "early")
}

// A holdConn holds back all that is written after the first write.
type holdConn struct {
	net.Conn
	writes int
	held   []byte
}

func (h *holdConn) Write(p []byte) (int, error) {
	if h.writes++; h.writes == 1 {
		return h.Conn.Write(p)
	}
	h.held = append(h.held, p...)
	return len(p), nil
}

func (h *holdConn) flush() error { _, err := h.Conn.Write(h.held); return err }

func TestCloseNotifyBothWays(t *testing.T) {
	bothRoles(t, func(t *testing.T, server bool) {
		p := connect(t, server)
		must.Succeed(t, p.peer.CloseWrite())
		if n, err := p.ours.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read after close_notify: %d, %v; want EOF", n, err)
		}
		_, err := p.ours.Write([]byte("x")) // the other direction goes on
		must.Succeed(t, err)
		_, err = io.ReadFull(p.peer, make([]byte, 1))
		must.Succeed(t, err)
		var alerts []byte
		p.socket.wrote = func(recordType byte) { alerts = append(alerts, recordType) }
		must.Succeed(t, p.ours.Close())
		if n, err := p.peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the peer's Read after Close: %d, %v; want EOF", n, err)
		}
		must.Equal(t, "records of Close", string(alerts), string([]byte{typeAlert}))
	})
}

// TestNotified: a FIN alone is no proper end, though Read returns io.EOF as well.
func TestNotified(t *testing.T) {
	for _, proper := range []bool{false, true} {
		p := connect(t, true)
		if proper {
			must.Succeed(t, p.peer.CloseWrite())
		}
		must.Succeed(t, p.wire.CloseWrite())
		if _, err := p.ours.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("close_notify %v: Read: %v, want %v", proper, err, io.EOF)
		}
		if got := p.ours.Notified(); got != proper {
			t.Errorf("close_notify %v: got %v", proper, got)
		}
	}
}

// No data follows close_notify.
func TestWriteAfterCloseWrite(t *testing.T) {
	p := connect(t, true)
	must.Succeed(t, p.ours.CloseWrite())
	if _, err := p.ours.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after CloseWrite: %v, want ErrClosed", err)
	}
}

// A rawPeer sends hand-made records as the peer, with its key, in place of crypto/tls.
type rawPeer struct {
	*pair
	key *directionKey
}

// takeOver returns a pair's peer for hand-made records.
func takeOver(t testing.TB, server bool) *rawPeer {
	t.Helper()
	p := connect(t, server)
	return &rawPeer{p, parseInfo(t, p.ours.suite.info(p.ours.receive))}
}

func (p *rawPeer) send(t testing.TB, recordType byte, b []byte) {
	t.Helper()
	_, err := p.wire.Write(p.key.seal(recordType, b))
	must.Succeed(t, err)
}

func TestPostHandshakeRecords(t *testing.T) {
	ticket := []byte{newSessionTicket, 0, 0, 2, 9, 9}
	type record struct {
		kind byte
		b    []byte
	}
	data := record{typeData, []byte("d")}
	for _, c := range []struct {
		name    string
		server  bool
		records []record
		want    string // "d" or an error
	}{
		{"ticket", false, []record{{typeHandshake, ticket}, data}, "d"},
		{"two tickets in a record", false, []record{{typeHandshake, append(bytes.Clone(ticket), ticket...)}, data}, "d"},
		{"ticket in two records", false, []record{{typeHandshake, ticket[:3]}, {typeHandshake, ticket[3:]}, data}, "d"},
		{"data within a ticket", false, []record{{typeHandshake, ticket[:5]}, data}, "data within a handshake message (alert 10)"},
		{"alert within a ticket", false, []record{{typeHandshake, ticket[:5]}, {typeAlert, []byte{1, 0}}}, "alert 50"},
		{"ticket to a server", true, []record{{typeHandshake, ticket}, data}, "handshake message 4 after the handshake (alert 10)"},
		{"CertificateRequest", false, []record{{typeHandshake, []byte{13, 0, 0, 0}}, data}, "handshake message 13"},
		{"empty handshake record", false, []record{{typeHandshake, nil}}, "empty handshake record"},
		{"long message", false, []record{{typeHandshake, []byte{newSessionTicket, 255, 0, 0}}}, "of 16711680 bytes"},
		{"KeyUpdate of 2 bytes", true, []record{{typeHandshake, []byte{keyUpdate, 0, 0, 2, 0, 0}}}, "alert 50"},
		{"KeyUpdate with request 2", true, []record{{typeHandshake, []byte{keyUpdate, 0, 0, 1, 2}}}, "alert 47"},
		{"KeyUpdate before another message", false, []record{{typeHandshake, append([]byte{keyUpdate, 0, 0, 1, 0}, ticket...)}}, "within a record (alert 10)"},
		{"user_canceled", true, []record{{typeAlert, []byte{1, 90}}, data}, "d"},
		{"fatal alert", true, []record{{typeAlert, []byte{2, 48}}, data}, "unknown certificate authority"},
		{"warning is fatal too", true, []record{{typeAlert, []byte{1, 48}}, data}, "unknown certificate authority"},
		{"short alert", true, []record{{typeAlert, []byte{1}}}, "malformed alert"},
		{"ChangeCipherSpec", true, []record{{20, []byte{1}}}, "record of type 20 (alert 10)"},
		{"16 tickets", false, repeat(record{typeHandshake, ticket}, 16, data), "d"},
		{"17 tickets", false, repeat(record{typeHandshake, ticket}, 17, data), "more than 16 records without data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := takeOver(t, c.server)
			for _, r := range c.records {
				p.send(t, r.kind, r.b)
			}
			b := make([]byte, 10)
			n, err := p.ours.Read(b)
			got := string(b[:n])
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) || (err == nil) != (c.want == "d") {
				t.Errorf("Read: %q, want %q", got, c.want)
			}
			if err == nil {
				return
			}
			if _, again := p.ours.Read(b); again != err {
				t.Errorf("Read after the error: %v, want it again: %v", again, err)
			}
		})
	}
}

func repeat[T any](x T, n int, last T) (all []T) {
	for range n {
		all = append(all, x)
	}
	return append(all, last)
}

// gets checks that the peer receives an alert.
func (p *pair) gets(t *testing.T, want tls.AlertError) {
	t.Helper()
	if _, err := p.peer.Read(make([]byte, 1)); err == nil || err.Error() != "remote error: "+want.Error() {
		t.Errorf("the peer's Read: %v, want alert %d", err, want)
	}
}

// A record with a wrong MAC ends the connection, and the peer gets the alert.
func TestForgedRecord(t *testing.T) {
	p := connect(t, true)
	forged := append([]byte{typeData, 3, 3, 0, 20}, make([]byte, 20)...)
	_, err := p.wire.Write(forged)
	must.Succeed(t, err)
	if _, err := p.ours.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "alert 20") {
		t.Errorf("Read: %v, want alert 20", err)
	}
	p.gets(t, alertBadRecordMAC)
	if _, err := p.ours.Write([]byte("x")); err == nil {
		t.Error("Write after a fatal alert succeeds, want an error")
	}
}

// The peer changes its key, and asks for a change of ours: both directions go on.
func TestKeyUpdate(t *testing.T) {
	bothRoles(t, func(t *testing.T, server bool) {
		p := takeOver(t, server)
		secret := bytes.Clone(p.ours.receive)
		for i := range 5 {
			p.send(t, typeHandshake, []byte{keyUpdate, 0, 0, 1, byte(i % 2)})
			secret = p.ours.suite.update(secret)
			p.key = parseInfo(t, p.ours.suite.info(secret))
			p.send(t, typeData, []byte{byte(i)})
			b := make([]byte, 2)
			n, err := p.ours.Read(b)
			must.Succeed(t, err)
			must.Equal(t, "data", string(b[:n]), string([]byte{byte(i)}))
			// crypto/tls follows our KeyUpdates.
			for range 2 {
				_, err = p.ours.Write([]byte("hello"))
				must.Succeed(t, err)
				_, err = io.ReadFull(p.peer, make([]byte, 5))
				must.Succeed(t, err)
			}
		}
		must.Equal(t, "changes of our key", p.socket.set[sending], 1+2)
		must.Equal(t, "changes of the peer's key", p.socket.set[receiving], 1+5)
	})
}

// Linux before 6.14 cannot change keys: the connection ends with a clear error.
func TestKeyUpdateWithoutKernel(t *testing.T) {
	p := takeOver(t, true)
	p.socket.noRekey = true
	p.send(t, typeHandshake, []byte{keyUpdate, 0, 0, 1, 1})
	if _, err := p.ours.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "Linux 6.14") {
		t.Errorf("Read: %v, want the version of Linux that can", err)
	}
	p.gets(t, alertInternalError)
}

// If our kernel refuses the new key after our KeyUpdate was sent, writes fail: the peer awaits data
// with that key.
func TestFailedKeyChangeStopsWrites(t *testing.T) {
	p := takeOver(t, true)
	p.send(t, typeHandshake, []byte{keyUpdate, 0, 0, 1, 1})
	p.key = parseInfo(t, p.ours.suite.info(p.ours.suite.update(bytes.Clone(p.ours.receive))))
	p.send(t, typeData, []byte("d"))
	_, err := p.ours.Read(make([]byte, 1))
	must.Succeed(t, err)
	p.socket.refuses[sending] = syscall.EBUSY
	for range 2 {
		if _, err := p.ours.Write([]byte("x")); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Write: %v, want EBUSY", err)
		}
	}
}

// A failure before the kernel has a key leaves the connection to crypto/tls.
func TestTakeWithoutKernel(t *testing.T) {
	for name, spoil := range map[string]func(s *softSocket){
		"no module": func(s *softSocket) { s.absent = syscall.ENOENT },
		"no cipher": func(s *softSocket) { s.refuses[receiving] = syscall.EINVAL },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpPair(t)
			h, peer := Server(a, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}), tls.Client(b, clientConfig)
			shake(t, h, peer)
			s := newSoftSocket(t, a)
			spoil(s)
			if _, err := h.take(s); !errors.Is(err, ErrUnsupported) {
				t.Fatalf("take: %v, want ErrUnsupported", err)
			}
			h.records.unlimit()
			echo(t, h.TLS, peer)
			echo(t, peer, h.TLS)
		})
	}
	t.Run("half", func(t *testing.T) {
		a, b := tcpPair(t)
		h := Server(a, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
		shake(t, h, tls.Client(b, clientConfig))
		s := newSoftSocket(t, a)
		s.refuses[sending] = syscall.ENOMEM
		if _, err := h.take(s); !errors.Is(err, syscall.ENOMEM) || errors.Is(err, ErrUnsupported) {
			t.Errorf("take: %v, want ENOMEM, and not ErrUnsupported", err)
		}
	})
}

func echo(t testing.TB, from, to net.Conn) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789"), 10_000)
	done := make(chan error, 1)
	go func() { _, err := from.Write(sent); done <- err }()
	got := make([]byte, len(sent))
	_, err := io.ReadFull(to, got)
	must.Succeed(t, err, <-done)
	if !bytes.Equal(got, sent) {
		t.Error("wrong bytes after a failed change to the kernel")
	}
}

// Take on this kernel either works or leaves crypto/tls in use.
func TestTakeHere(t *testing.T) {
	a, b := tcpPair(t)
	h, peer := Server(a, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}), tls.Client(b, clientConfig)
	shake(t, h, peer)
	c, err := h.Take()
	if err != nil {
		if !errors.Is(err, ErrUnsupported) {
			t.Fatalf("Take: %v, want ErrUnsupported", err)
		}
		t.Logf("Take: %v", err)
		echo(t, h.TLS, peer)
		echo(t, peer, h.TLS)
		return
	}
	echo(t, c, peer)
	echo(t, peer, c)
}

func TestTakeNeeds(t *testing.T) {
	cert := []tls.Certificate{selfSigned(t)}
	t.Run("a handshake", func(t *testing.T) {
		a, _ := tcpPair(t)
		if _, err := Server(a, &tls.Config{Certificates: cert}).take(newSoftSocket(t, a)); err == nil || errors.Is(err, ErrUnsupported) {
			t.Errorf("take: %v, want another error", err)
		}
	})
	t.Run("TLS 1.3", func(t *testing.T) {
		a, b := tcpPair(t)
		h := Server(a, &tls.Config{Certificates: cert, MaxVersion: tls.VersionTLS12})
		shake(t, h, tls.Client(b, clientConfig))
		if _, err := h.take(newSoftSocket(t, a)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("take: %v, want ErrUnsupported", err)
		}
	})
	t.Run("TCP", func(t *testing.T) {
		a, _ := net.Pipe()
		if _, err := Server(a, &tls.Config{Certificates: cert}).Take(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Take: %v, want ErrUnsupported", err)
		}
	})
}

// Secrets reach the kernel, and also the key log of a configuration chosen for the client.
func TestConfigForClient(t *testing.T) {
	var log bytes.Buffer
	chosen := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, KeyLogWriter: &log}
	a, b := tcpPair(t)
	h := Server(a, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }})
	shake(t, h, tls.Client(b, clientConfig))
	_, err := h.take(newSoftSocket(t, a))
	must.Succeed(t, err)
	if lines := strings.Count(log.String(), "\n"); lines < 4 {
		t.Errorf("the key log of the chosen configuration has %d lines, want 4 or more", lines)
	}
	if chosen.KeyLogWriter != &log || chosen.SessionTicketsDisabled {
		t.Error("the caller's configuration was changed, want a copy")
	}
}
