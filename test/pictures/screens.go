// Screenshots of running programs: nfsrdma top on a terminal, and the page of metrics in a browser.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

const browser = "chromium-headless-shell"

// interval is the refresh interval of top and of the page.
const interval = 2 * time.Second

// A stage is a server with busy clients.
type stage struct {
	dir, control, metrics string
	server, clients       sync.WaitGroup
	failed                chan error // of server and clients; each fails at most once
}

// takeScreens writes top.svg and metrics.png.
func takeScreens(ctx context.Context) (err error) {
	if _, err := exec.LookPath(browser); err != nil {
		return err
	}
	// The clients must end before their server, because clients would wait for an ended server.
	ctx, endClients := context.WithCancel(ctx)
	serving, endServer := context.WithCancel(context.WithoutCancel(ctx))
	s := &stage{failed: make(chan error, 1+len(loads))}
	defer func() {
		endClients()
		s.clients.Wait()
		endServer()
		s.server.Wait()
		err = errors.Join(err, os.RemoveAll(s.dir))
	}()
	if s.dir, err = os.MkdirTemp("/dev/shm", "nfsrdma-pictures-"); err != nil {
		return err
	}
	if err := s.open(ctx, serving); err != nil {
		return err
	}
	top := exec.CommandContext(ctx, filepath.Join(s.dir, "nfsrdma"), "top", "--local", "--control", s.control, "--interval", interval.String())
	top.Env = append(os.Environ(), "TERM=xterm")
	frame, err := lastFrame(top, 8) // the first frame has no rates
	if err != nil {
		return s.why(err)
	}
	d := terminal("top", "nfsrdma top: rates of each operation and of each client", frame)
	if err := os.WriteFile(filepath.Join(folder, d.name+".svg"), []byte(d.svg()), 0o644); err != nil {
		return err
	}
	return s.why(s.photograph(ctx, filepath.Join(folder, "metrics.png")))
}

// why adds the failure of one of the stage's programs to an error.
func (s *stage) why(err error) error {
	if err != nil && len(s.failed) > 0 {
		err = errors.Join(err, <-s.failed)
	}
	return err
}

// loads are the clients' endless loads: a test of nfsrdma bench, and a transport.
var loads = []struct{ test, scheme string }{{"read", "nfsrdma"}, {"write", "nfsrdma"}, {"randread", "nfsrdma"}, {"getattr", "nfs"}, {"lookup", "nfs"}}

// open builds the programs, starts the server until serving ends, and runs clients until ctx ends.
func (s *stage) open(ctx, serving context.Context) error {
	const module = "github.com/nfsrdma/nfsrdma/cmd/"
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.dir+"/", module+"nfsrdma", module+"nfsrdmad").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	served := filepath.Join(s.dir, "data")
	if err := os.Mkdir(served, 0o755); err != nil {
		return err
	}
	var ports [3]string
	for i := range ports {
		port, release, err := machine.ReservePort()
		if err != nil {
			return err
		}
		defer release()
		ports[i] = fmt.Sprint(port)
	}
	s.control, s.metrics = filepath.Join(s.dir, "control"), "127.0.0.1:"+ports[2]
	s.keep(serving, &s.server, "nfsrdmad", "serve", "--no-root-squash", "--tcp-port", ports[0], "--rdma", "iwarp", "--rdma-port", ports[1], "--rpcbind", "off",
		"--ephemeral-key", "--locks=false", "--control", s.control, "--metrics-addr", s.metrics, "--log-level", "error", served+"=/data")
	for !listens(s.metrics) || !listens("127.0.0.1:"+ports[1]) {
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	address := map[string]string{"nfs": ports[0], "nfsrdma": ports[1]}
	for _, l := range loads {
		s.keep(ctx, &s.clients, "nfsrdma", "bench", "--no-raw", "--size", "32M", "--duration", "1h", "--depth", "2", "--tests", l.test,
			l.scheme+"://127.0.0.1:"+address[l.scheme]+"/data")
	}
	return nil
}

// keep runs a program until the context ends, and then ends it by SIGTERM.
func (s *stage) keep(ctx context.Context, group *sync.WaitGroup, name string, args ...string) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, name), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	group.Go(func() {
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			s.failed <- fmt.Errorf("%s: %w\n%s", name, err, &said)
		}
	})
}

func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// photograph writes a browser's window with the page of metrics. The browser's virtual time stops
// while the page waits for a reply. So the proxy delays each reply by the time that has passed for
// the page.
func (s *stage) photograph(ctx context.Context, file string) error {
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", s.metrics, s.metrics
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/figures.json" {
			time.Sleep(interval)
		}
		to.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	const questions = 30
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir="+filepath.Join(s.dir, "browser"), "--window-size=1000,900",
		fmt.Sprintf("--virtual-time-budget=%d", (questions*interval).Milliseconds()), "--screenshot="+file, proxy.URL+"/")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", browser, err, out)
	}
	return nil
}
