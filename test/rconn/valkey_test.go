// A Valkey client over rconn's connections. A listener in the test copies their bytes to and from a
// real server.

package rconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// redisServer starts a server, and returns its socket.
func redisServer(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		machine.Skip(t, "redis-server is not installed")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "")
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	must.Become(t, "the server listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return socket
}

// passOn copies between c and a new connection to a socket, until both directions end.
func passOn(t *testing.T, c net.Conn, socket string) {
	defer c.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	var ways sync.WaitGroup
	ways.Go(func() {
		_, _ = io.Copy(server, c) // ends when the client has closed
		_ = server.(*net.UnixConn).CloseWrite()
	})
	ways.Go(func() {
		_, _ = io.Copy(c, server)
		_ = c.(*rconn.Conn).CloseWrite()
	})
	ways.Wait()
}

func TestValkey(t *testing.T) {
	socket := redisServer(t)
	overProviders(t, func(t *testing.T, network string) {
		cfg, addr := config(t, network)
		l, err := rconn.Listen(network, addr, cfg)
		must.Succeed(t, err)
		var conns sync.WaitGroup
		conns.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conns.Go(func() { passOn(t, c, socket) })
			}
		})
		client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{l.Addr().String()}, DisableCache: true, ForceSingleClient: true,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return rconn.Dial(ctx, network, addr, cfg)
			}})
		must.Succeed(t, err)
		ctx := context.Background()
		long := strings.Repeat("0123456789", 100_000)
		must.Succeed(t, client.Do(ctx, client.B().Set().Key("long").Value(long).Build()).Error())
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 20 {
					if err := client.Do(ctx, client.B().Incr().Key(network).Build()).Error(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		got, err := client.Do(ctx, client.B().Get().Key("long").Build()).AsBytes()
		must.Succeed(t, err)
		if !bytes.Equal(got, []byte(long)) {
			t.Errorf("wrong bytes: %d of %d", len(got), len(long))
		}
		n, err := client.Do(ctx, client.B().Get().Key(network).Build()).AsInt64()
		must.Succeed(t, err)
		must.Equal(t, "increments", n, 160)
		client.Close()
		must.Succeed(t, l.Close())
		conns.Wait()
	})
}
