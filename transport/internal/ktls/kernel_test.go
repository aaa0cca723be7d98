// TLS in the kernel. The tests are skipped without it; test/linux also runs them in a guest.

package ktls

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A kernelPair is our side in the kernel, and crypto/tls as the peer.
type kernelPair struct {
	ours *Conn
	peer *tls.Conn
	wire *net.TCPConn // the peer's
}

// inKernel makes a kernelPair, or skips the test.
func inKernel(t *testing.T, server bool) *kernelPair {
	t.Helper()
	a, b := tcpPair(t)
	s, c := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}, clientConfig
	var h *Handshake
	var peer *tls.Conn
	if server {
		h, peer = Server(a, s), tls.Client(b, c)
	} else {
		h, peer = Client(a, c), tls.Server(b, s)
	}
	shake(t, h, peer)
	before := tlsStat(t)
	ours, err := h.Take()
	if errors.Is(err, ErrUnsupported) {
		echo(t, h.TLS, peer)
		echo(t, peer, h.TLS)
		t.Skipf("%v: TestKernelTLS of test/linux runs this in a guest", err)
	}
	must.Succeed(t, err)
	after := tlsStat(t)
	for _, counter := range []string{"TlsTxSw", "TlsRxSw"} {
		if after[counter] <= before[counter] {
			t.Errorf("the kernel's %s is %d after Take, and was %d: want it to grow", counter, after[counter], before[counter])
		}
	}
	return &kernelPair{ours, peer, b}
}

// tlsStat reads the kernel's counters; they are for the whole network namespace.
func tlsStat(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile("/proc/net/tls_stat")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must.Succeed(t, err)
	all := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 {
			all[f[0]], _ = strconv.Atoi(f[1])
		}
	}
	return all
}

// Bytes arrive unchanged with every cipher suite, in both roles, in both directions at once.
func TestKernelBulk(t *testing.T) {
	for id := range suites {
		t.Run(tls.CipherSuiteName(id), func(t *testing.T) {
			preferOnly(t, id)
			bothRoles(t, func(t *testing.T, server bool) {
				p := inKernel(t, server)
				must.Equal(t, "cipher suite", p.peer.ConnectionState().CipherSuite, id)
				sent := make([]byte, 4<<20)
				rand.Read(sent)
				errs := make(chan error, 3)
				go func() {
					list := net.Buffers{sent[:10], sent[10:100_000], sent[100_000:]}
					n, err := p.ours.WriteBuffers(&list)
					if err == nil && n != int64(len(sent)) {
						err = io.ErrShortWrite
					}
					errs <- err
				}()
				go func() { _, err := p.peer.Write(sent); errs <- err }()
				got, back := make([]byte, len(sent)), make([]byte, len(sent))
				go func() { _, err := io.ReadFull(p.peer, got); errs <- err }()
				_, err := io.ReadFull(p.ours, back)
				must.Succeed(t, err, <-errs, <-errs, <-errs)
				if !bytes.Equal(got, sent) || !bytes.Equal(back, sent) {
					t.Errorf("wrong bytes: there %v, here %v; want both the same", bytes.Equal(got, sent), bytes.Equal(back, sent))
				}
			})
		})
	}
}

// A file's pages go to the peer by sendfile(2).
func TestKernelSendfile(t *testing.T) {
	p := inKernel(t, true)
	sent := make([]byte, 1<<20)
	rand.Read(sent)
	f, err := os.CreateTemp(t.TempDir(), "")
	must.Succeed(t, err)
	defer f.Close()
	_, err = f.Write(sent)
	must.Succeed(t, err)
	raw, err := p.ours.SyscallConn()
	must.Succeed(t, err)
	done := make(chan error, 1)
	go func() {
		var offset int64
		var failed error
		err := raw.Write(func(fd uintptr) bool {
			for offset < int64(len(sent)) && failed == nil {
				_, failed = unix.Sendfile(int(fd), int(f.Fd()), &offset, len(sent)-int(offset))
				if errors.Is(failed, unix.EAGAIN) {
					failed = nil
					return false
				}
			}
			return true
		})
		done <- errors.Join(err, failed)
	}()
	got := make([]byte, len(sent))
	_, err = io.ReadFull(p.peer, got)
	must.Succeed(t, err, <-done)
	if !bytes.Equal(got, sent) {
		t.Error("wrong bytes by sendfile")
	}
}

func TestKernelCloseNotify(t *testing.T) {
	bothRoles(t, func(t *testing.T, server bool) {
		p := inKernel(t, server)
		_, err := p.peer.Write([]byte("last"))
		must.Succeed(t, err, p.peer.CloseWrite())
		got, err := io.ReadAll(p.ours)
		must.Succeed(t, err)
		must.Equal(t, "data before close_notify", string(got), "last")
		_, err = p.ours.Write([]byte("x"))
		must.Succeed(t, err, p.ours.Close())
		// crypto/tls gives an EOF only for a close_notify, or at the stream's end: so the raw end
		// must not come first.
		got, err = io.ReadAll(p.peer)
		must.Succeed(t, err)
		must.Equal(t, "data before our close_notify", string(got), "x")
	})
}

// Records made by hand show that types pass both ways: a ticket is ignored, and an alert arrives.
func TestKernelControlRecords(t *testing.T) {
	p := inKernel(t, false)
	k := parseInfo(t, p.ours.suite.info(p.ours.receive))
	send := func(kind byte, b []byte) {
		t.Helper()
		_, err := p.wire.Write(k.seal(kind, b))
		must.Succeed(t, err)
	}
	ticket := []byte{newSessionTicket, 0, 0, 2, 9, 9}
	send(typeHandshake, slices.Concat(ticket, ticket))
	send(typeHandshake, ticket[:3])
	send(typeHandshake, ticket[3:])
	send(typeData, []byte("da"))
	send(typeData, []byte("ta"))
	b := make([]byte, 4)
	_, err := io.ReadFull(p.ours, b)
	must.Succeed(t, err)
	must.Equal(t, "data after tickets", string(b), "data")
	send(typeAlert, []byte{2, 48})
	if _, err := p.ours.Read(b); err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("Read: %v, want the alert", err)
	}
}

// A forged record is counted by the kernel, and ends the connection.
func TestKernelForgedRecord(t *testing.T) {
	p := inKernel(t, true)
	before := tlsStat(t)["TlsDecryptError"]
	_, err := p.wire.Write(append([]byte{typeData, 3, 3, 0, 40}, make([]byte, 40)...))
	must.Succeed(t, err)
	if _, err := p.ours.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "alert 20") {
		t.Errorf("Read: %v, want alert 20", err)
	}
	if after := tlsStat(t)["TlsDecryptError"]; after <= before {
		t.Errorf("TlsDecryptError %d, and %d before: want it to grow", after, before)
	}
	(&pair{peer: p.peer}).gets(t, alertBadRecordMAC)
}

// Linux 6.14 changes keys; before, the connection ends with a clear error. The probe distinguishes
// the two.
func TestKernelKeyUpdate(t *testing.T) {
	p := inKernel(t, true)
	rekeys, err := Probe()
	must.Succeed(t, err)
	k := parseInfo(t, p.ours.suite.info(p.ours.receive))
	_, err = p.wire.Write(k.seal(typeHandshake, []byte{keyUpdate, 0, 0, 1, 1}))
	must.Succeed(t, err)
	k = parseInfo(t, p.ours.suite.info(p.ours.suite.update(bytes.Clone(p.ours.receive))))
	_, err = p.wire.Write(k.seal(typeData, []byte("d")))
	must.Succeed(t, err)
	b := make([]byte, 1)
	_, err = p.ours.Read(b)
	must.Equal(t, "the probe's answer", rekeys, err == nil)
	if err != nil {
		if !strings.Contains(err.Error(), "Linux 6.14") || !strings.Contains(err.Error(), syscall.EBUSY.Error()) {
			t.Errorf("Read: %v, want EBUSY, and the version of Linux that can", err)
		}
		t.Logf("this kernel changes no keys: %v", err)
		return
	}
	must.Equal(t, "data with the next key", string(b), "d")
	_, err = p.ours.Write([]byte("answer"))
	must.Succeed(t, err)
	_, err = io.ReadFull(p.peer, make([]byte, 6)) // crypto/tls follows our KeyUpdate
	must.Succeed(t, err)
}

// Deadlines interrupt reads and writes, which continue later.
func TestKernelDeadlines(t *testing.T) {
	p := inKernel(t, true)
	must.Succeed(t, p.ours.SetReadDeadline(past))
	if _, err := p.ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v, want a deadline", err)
	}
	must.Succeed(t, p.ours.SetReadDeadline(never))
	_, err := p.peer.Write([]byte("x"))
	must.Succeed(t, err)
	_, err = p.ours.Read(make([]byte, 1))
	must.Succeed(t, err)
}

// Deadlines for tests.
var (
	past  = time.Unix(1, 0)
	never = time.Time{}
)

// The suites that crypto/tls offers and prefers, with and without AES in hardware.
//
//go:linkname preferred crypto/tls.defaultCipherSuitesTLS13
var preferred []uint16

//go:linkname preferredWithoutAES crypto/tls.defaultCipherSuitesTLS13NoAES
var preferredWithoutAES []uint16

// preferOnly makes crypto/tls use one suite, which no configuration can.
func preferOnly(t *testing.T, id uint16) {
	t.Helper()
	a, b := preferred, preferredWithoutAES
	preferred, preferredWithoutAES = []uint16{id}, []uint16{id}
	t.Cleanup(func() { preferred, preferredWithoutAES = a, b })
}
