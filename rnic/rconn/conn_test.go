// Connections over each provider: bytes, ends, deadlines and memory.

package rconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// random returns n bytes that a seed determines.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// writePieces writes b in pieces of random sizes, small and large.
func writePieces(w io.Writer, b []byte, r *rand.Rand) error {
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(1<<r.IntN(19)))
		if k, err := w.Write(b[:n]); k != n || err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// TestBothWays: both sides write and read at once, in pieces of all sizes, through the smallest
// rings and large ones; CloseWrite ends each direction by itself.
func TestBothWays(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		for _, ring := range []int{minRing, 1 << 20} {
			x, y := pair(t, network, Config{Ring: ring})
			data := [2][]byte{random(1, 1<<20), random(2, 700_001)}
			var tasks sync.WaitGroup
			for i, c := range []*Conn{x, y} {
				tasks.Go(func() {
					if err := writePieces(c, data[i], rand.New(rand.NewPCG(uint64(i), 0))); err != nil {
						t.Errorf("side %d writes: %v", i, err)
					}
					if err := c.CloseWrite(); err != nil {
						t.Errorf("CloseWrite: %v", err)
					}
				})
				tasks.Go(func() {
					got, err := io.ReadAll(c)
					if err != nil {
						t.Errorf("side %d reads: %v", i, err)
					}
					if !bytes.Equal(got, data[1-i]) {
						t.Errorf("side %d: wrong bytes, %d of %d", i, len(got), len(data[1-i]))
					}
				})
			}
			tasks.Wait()
		}
	})
}

// TestCloseDeliversAll: bytes written before Close are read, and then io.EOF, although the peer
// reads only after Close has returned.
func TestCloseDeliversAll(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{})
		want := random(3, 300_000)
		_, err := x.Write(want)
		must.Succeed(t, err, x.Close())
		var got bytes.Buffer
		_, err = io.Copy(&got, y) // by WriteTo
		must.Succeed(t, err)
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("wrong bytes: %d of %d", got.Len(), len(want))
		}
		if n, err := y.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read: got %d, %v, want 0, %v", n, err, io.EOF)
		}
	})
}

// TestReset: after an end without a closing message, Read returns the bytes that came, and then
// reports a reset.
func TestReset(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{})
		_, err := x.Write([]byte("last words"))
		must.Succeed(t, err)
		buf := make([]byte, 100)
		n, err := io.ReadAtLeast(y, buf, 4)
		must.Succeed(t, err)
		x.qp.Abort(rnic.ErrClosed)
		rest, err := io.ReadAll(y)
		if got := string(buf[:n]) + string(rest); got != "last words" {
			t.Errorf("got %q", got)
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read: %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := y.Write(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write: %v, want %v", err, syscall.ECONNRESET)
		}
		if err := y.CloseWrite(); !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("CloseWrite: %v, want %v", err, syscall.ENOTCONN)
		}
	})
}

// TestClosed: methods fail with net.ErrClosed after Close, and so do methods that wait when Close
// is called.
func TestClosed(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{Ring: minRing})
		ends := make(chan error, 2)
		go func() {
			_, err := x.Read(make([]byte, 1))
			ends <- err
		}()
		go func() {
			_, err := x.Write(make([]byte, 4*minRing)) // fills the ring of y, which reads nothing
			ends <- err
		}()
		must.Become(t, "Read and Write wait", func() bool { return x.readWaits.Load() && x.writeWaits.Load() })
		must.Succeed(t, x.Close())
		for range 2 {
			if err := <-ends; !errors.Is(err, net.ErrClosed) {
				t.Errorf("a method that waited: %v, want %v", err, net.ErrClosed)
			}
		}
		_, writeErr := x.Write(nil)
		for name, err := range map[string]error{"Write": writeErr, "Close": x.Close(), "CloseWrite": x.CloseWrite(), "SetDeadline": x.SetDeadline(time.Now())} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want %v", name, err, net.ErrClosed)
			}
		}
		got, err := io.ReadAll(y)
		if len(got) != minRing || err != nil {
			t.Errorf("the peer read %d bytes, %v, want the %d of its ring", len(got), err, minRing)
		}
	})
}

// TestHalfClosed: after CloseWrite a Write fails with EPIPE, and so does a Write that waited when
// CloseWrite was called.
func TestHalfClosed(t *testing.T) {
	x, y := pair(t, "iwarp", Config{Ring: minRing})
	end := make(chan error, 1)
	go func() {
		_, err := x.Write(make([]byte, 4*minRing))
		end <- err
	}()
	must.Become(t, "Write waits", x.writeWaits.Load)
	must.Succeed(t, x.CloseWrite(), x.CloseWrite())
	if err := <-end; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the Write that waited: %v, want %v", err, syscall.EPIPE)
	}
	if _, err := x.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write: %v, want %v", err, syscall.EPIPE)
	}
	_, err := y.Write([]byte("back"))
	must.Succeed(t, err)
	buf := make([]byte, 4)
	if _, err := io.ReadFull(x, buf); err != nil || string(buf) != "back" {
		t.Errorf("got %q, %v, want %q", buf, err, "back")
	}
}

// TestDeadlines: a passed deadline fails with os.ErrDeadlineExceeded, a Timeout of net.Error; the
// next deadline makes the connection usable, and no byte is lost or doubled.
func TestDeadlines(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{Ring: minRing})
		data := random(4, 3*minRing)
		must.Succeed(t, x.SetWriteDeadline(time.Now().Add(time.Millisecond)))
		n, err := x.Write(data)
		wantTimeout(t, "Write to a full ring", err)
		if n > minRing {
			t.Errorf("%d bytes were written to a ring of %d", n, minRing)
		}
		must.Succeed(t, y.SetReadDeadline(time.Now().Add(-time.Second)))
		_, err = y.Read(make([]byte, 1))
		wantTimeout(t, "Read with bytes at hand", err)
		must.Succeed(t, x.SetDeadline(time.Time{}), y.SetDeadline(time.Time{}))
		go func() {
			if _, err := x.Write(data[n:]); err != nil {
				t.Errorf("Write without a deadline: %v", err)
			}
		}()
		got := make([]byte, len(data))
		_, err = io.ReadFull(y, got)
		must.Succeed(t, err)
		if !bytes.Equal(got, data) {
			t.Error("wrong bytes")
		}
		must.Succeed(t, y.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err = y.Read(got)
		wantTimeout(t, "Read of nothing", err)
	})
}

func wantTimeout(t *testing.T, name string, err error) {
	t.Helper()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: %v, want %v", name, err, os.ErrDeadlineExceeded)
	}
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("%s: %v is no timeout of net.Error", name, err)
	}
}

// TestDirectWriteMeetsDeadline: a deadline ends a large Write that waits for the peer's ring. Bytes
// beyond the reported number were not sent.
func TestDirectWriteMeetsDeadline(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{Ring: minRing, Linger: time.Hour})
		type result struct {
			n   int
			err error
		}
		end := make(chan result, 1)
		data := random(5, 2*directBytes)
		go func() {
			n, err := x.Write(data)
			end <- result{n, err}
		}()
		must.Become(t, "Write waits", x.writeWaits.Load)
		must.Succeed(t, x.SetWriteDeadline(time.Now()))
		r := <-end
		wantTimeout(t, "Write", r.err)
		clear(data[r.n:])
		must.Succeed(t, x.SetWriteDeadline(time.Time{}))
		if r.n != minRing {
			t.Errorf("%d bytes were written, want the %d of the ring", r.n, minRing)
		}
		must.Succeed(t, x.Close())
		if got, err := io.ReadAll(y); err != nil || !bytes.Equal(got, data[:r.n]) {
			t.Errorf("wrong bytes: %d of %d, %v", len(got), r.n, err)
		}
	})
}

// TestAddresses: both ends name each other, also after Close.
func TestAddresses(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		x, y := pair(t, network, Config{})
		must.Equal(t, "peer's address", y.RemoteAddr().String(), x.LocalAddr().String())
		must.Succeed(t, x.Close())
		if x.LocalAddr() == nil || x.RemoteAddr() == nil {
			t.Error("no addresses after Close")
		}
	})
}

// TestListenerCloses: Close ends a waiting Accept, and connections that no Accept has returned.
func TestListenerCloses(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		l, cfg := listen(t, network, Config{})
		c, err := Dial(context.Background(), network, l.Addr().String(), cfg)
		must.Succeed(t, err)
		defer c.Close()
		must.Become(t, "the listener has the connection", func() bool { return len(l.conns) == 1 })
		must.Succeed(t, l.Close())
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close again: %v, want %v", err, net.ErrClosed)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read: %v, want %v", err, syscall.ECONNRESET)
		}
	})
}

// TestConfigErrors: wrong configurations are refused before anything is opened.
func TestConfigErrors(t *testing.T) {
	dev, _ := device(t, "iwarp", rnic.DeviceConfig{})
	for name, c := range map[string]struct {
		network string
		cfg     *Config
	}{
		"a small ring":               {"iwarp", &Config{Ring: 1}},
		"a large ring":               {"iwarp", &Config{Ring: maxRing + 1}},
		"an unknown provider":        {"tcp", nil},
		"another provider's network": {"roce", &Config{Device: dev}},
	} {
		if _, err := Dial(context.Background(), c.network, "127.0.0.1:1", c.cfg); err == nil {
			t.Errorf("%s: Dial succeeded", name)
		}
		if _, err := Listen(c.network, "127.0.0.1:0", c.cfg); err == nil {
			t.Errorf("%s: Listen succeeded", name)
		}
	}
	cfg, err := (&Config{Ring: minRing + 1}).with("iwarp")
	must.Succeed(t, err)
	must.Equal(t, "rounded ring", cfg.Ring, 2*minRing)
}

// TestDialRefused: Dial fails without a listener, and with a context that has ended.
func TestDialRefused(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		l, cfg := listen(t, network, Config{})
		addr := l.Addr().String()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Dial(ctx, network, addr, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v, want %v", err, context.Canceled)
		}
	})
}

// TestReadReceives: a Read that waits receives on its own goroutine, even with a deadline, and even
// if its side has never written.
func TestReadReceives(t *testing.T) {
	l, cfg := listen(t, iwarp.Name, Config{})
	x, y := join(t, l, cfg)
	next := make(chan struct{})
	go func() {
		for range next {
			if _, err := x.Write([]byte{1}); err != nil {
				return
			}
		}
	}()
	defer close(next)
	must.Succeed(t, y.SetReadDeadline(time.Now().Add(time.Hour)))
	for b := make([]byte, 1); cfg.Device.Mechanisms()["caller_receive"].Won == 0; {
		next <- struct{}{}
		_, err := y.Read(b)
		must.Succeed(t, err)
	}
}
