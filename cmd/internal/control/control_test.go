// The socket: permitted peers, and peers that send garbage or read nothing.

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// echo returns the command, and fails for one command.
func echo(command string) (any, error) {
	switch command {
	case "fail":
		return nil, errors.New("it is\nrefused")
	case "large":
		return strings.Repeat("x", 2<<20), nil
	}
	return command, nil
}

// listen serves echo at a new socket.
func listen(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dir", "control")
	s, err := Listen(path, echo)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return path
}

// asked returns the answer to a command.
func asked(path, command string) (answer string, err error) {
	err = Ask(context.Background(), path, command, &answer)
	return answer, err
}

// TestAsk: results and one-line errors arrive, and only the socket's user can reach the socket.
func TestAsk(t *testing.T) {
	path := listen(t)
	if got, err := asked(path, "status"); err != nil || got != "status" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := asked(path, "fail")
	if _, ok := errors.AsType[*RefusedError](err); !ok || err.Error() != "it is; refused" {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := Listen(path, echo); !errors.Is(err, ErrTaken) {
		t.Errorf("a second server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Ask(ctx, path, "status", new(string)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestNoServer: a request fails with ErrNoServer without a socket, at a killed server's socket, and
// after Close.
func TestNoServer(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control")
	if _, err := asked(path, "status"); !errors.Is(err, ErrNoServer) {
		t.Errorf("no socket: %v", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if _, err := asked(path, "status"); !errors.Is(err, ErrNoServer) {
		t.Errorf("a socket of nobody: %v", err)
	}
	s, err := Listen(path, echo)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if _, err := asked(path, "status"); err != nil {
		t.Errorf("asked: %v", err)
	}
	s.Close()
	if _, err := asked(path, "status"); !errors.Is(err, ErrNoServer) {
		t.Errorf("after Close: %v", err)
	}
}

// TestServersThatStartAtOnce: exactly one server gets the socket and answers there.
func TestServersThatStartAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	for range 20 {
		won := make(chan *Server, 8)
		var all sync.WaitGroup
		for range cap(won) {
			all.Go(func() {
				if s, err := Listen(path, echo); err == nil {
					won <- s
				} else if !errors.Is(err, ErrTaken) {
					t.Errorf("%v, want %v", err, ErrTaken)
				}
			})
		}
		all.Wait()
		if n := len(won); n != 1 {
			t.Fatalf("%d servers have the socket", n)
		}
		if _, err := asked(path, "status"); err != nil {
			t.Errorf("asked: %v", err)
		}
		(<-won).Close()
	}
}

// say sends bytes and returns the answer.
func say(t *testing.T, path string, line []byte) []byte {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	go c.Write(line) // Write may block, because the server may read only a part
	answer, _ := io.ReadAll(c)
	return answer
}

// TestHostilePeers: after noise, endless lines, other versions, and half requests, the server still
// answers the next request.
func TestHostilePeers(t *testing.T) {
	path := listen(t)
	for name, line := range map[string][]byte{"noise": []byte("\x00\xff{}[]\n"), "old": []byte("reload\n"), "10 MB": append(bytes.Repeat([]byte("x"), 10<<20), '\n'),
		"no command": []byte("{\"version\":1}\n"), "number": []byte("17\n"), "null": []byte("null\n"), "empty": []byte("\n")} {
		if _, err := parseReply(bytes.TrimSpace(say(t, path, line))); err == nil || !strings.Contains(err.Error(), "not understand") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseReply(say(t, path, []byte(`{"version":2,"command":"status"}`+"\n"))); err == nil || !strings.Contains(err.Error(), "different versions") {
		t.Errorf("another version: %v", err)
	}
	var silent []net.Conn
	for range 2 * maxConns { // connections beyond the limit are closed
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		fmt.Fprint(c, `{"version":1,"command":"stat`)
		silent = append(silent, c)
	}
	if _, err := asked(path, "status"); err == nil {
		t.Error("more connections than the bound are answered")
	}
	for _, c := range silent {
		c.Close()
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if got, err := asked(path, "status"); err == nil && got == "status" {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("after the end of all others: %q, %v", got, err)
		}
	}
}

// TestSlowReader: a peer that does not read a large answer delays no other peer.
func TestSlowReader(t *testing.T) {
	path := listen(t)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	fmt.Fprintln(c, `{"version":1,"command":"large"}`)
	if got, err := asked(path, "status"); err != nil || got != "status" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := asked(path, "large"); err != nil || len(got) != 2<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestOtherUsersAreRefused: other users get no answer, even if the socket's mode lets them connect.
func TestOtherUsersAreRefused(t *testing.T) {
	machine.NeedRoot(t, "needs root, to be another user")
	dir, err := os.MkdirTemp("/tmp", "control")
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	defer os.RemoveAll(dir)
	var commands atomic.Int32
	path := filepath.Join(dir, "control")
	s, err := Listen(path, func(string) (any, error) { commands.Add(1); return 1, nil })
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer s.Close()
	must.Succeed(t, os.Chmod(dir, 0o755))
	if err := askAs(t, 65534, path); err == nil || !strings.Contains(err.Error(), "only root and the user") {
		t.Errorf("with the mode that it has: %v", err)
	}
	must.Succeed(t, os.Chmod(path, 0o666))
	if err := askAs(t, 65534, path); err == nil || !strings.Contains(err.Error(), "only root and user 0") {
		t.Errorf("with one that lets all in: %v", err)
	}
	if n := commands.Load(); n != 0 {
		t.Errorf("%d commands were carried out", n)
	}
	if err := askAs(t, 0, path); err != nil {
		t.Errorf("root: %v", err)
	}
}

// askAs asks as another user, on a thread that ends with the goroutine.
func askAs(t *testing.T, uid uintptr, path string) error {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			result <- errno
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
		switch {
		case errors.Is(err, unix.EACCES):
			result <- errors.New("only root and the user who runs the server can ask")
			return
		case err != nil:
			result <- err
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		fmt.Fprintln(f, `{"version":1,"command":"status"}`)
		answer, _ := io.ReadAll(f)
		_, err = parseReply(bytes.TrimSpace(answer))
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-time.After(time.Minute):
		return errors.New("no answer")
	}
}

// FuzzRequest: any line is refused or a command, and its answer is one line of JSON.
func FuzzRequest(f *testing.F) {
	for _, line := range []string{`{"version":1,"command":"status"}`, `{"version":2}`, `[]`, "\xff", `{"version":1,"command":"\u0000"}`, `{"version":1e9,"command":{}}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		command, err := parseRequest(line)
		if (err == nil) != (command != "") {
			t.Fatalf("%q, %v", command, err)
		}
		answer := encodeReply(command, err)
		if bytes.Count(answer, []byte("\n")) != 1 || !json.Valid(answer) {
			t.Fatalf("%q", answer)
		}
		if _, got := parseReply(answer); (got == nil) != (err == nil) {
			t.Fatalf("%v for %v", got, err)
		}
		_, _ = parseReply(line)
	})
}
