// The command line: exports, output and errors.

package program

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// run runs nfsrdmad with args until ctx ends.
func run(ctx context.Context, args ...string) (out string, err error) {
	var b bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&b)
	err = root.ExecuteContext(ctx)
	return b.String(), err
}

// freePort returns an unused port, for a flag.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(machine.Port(t))
}

func TestServe(t *testing.T) {
	tcp, rdma := freePort(t), freePort(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		out string
		err error
	}
	done := make(chan result)
	go func() {
		out, err := run(ctx, "serve", dir, dir+"=/name", dir+"=/third", dir+"=/fourth", "--memory", "--state-dir", filepath.Join(dir, "state"), "--tcp-port", tcp, "--rdma", "iwarp", "--rdma-port", rdma, "--rpcbind", "off", "--log-level", "error")
		done <- result{out, err}
	}()
	dialCtx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		c, err := transport.DialTCP(dialCtx, "127.0.0.1:"+tcp, transport.ClientConfig{})
		if err == nil {
			c.Close()
			break
		}
		if dialCtx.Err() != nil {
			t.Fatal(err)
		}
	}
	cancel()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	for _, want := range []string{"serving " + dir + " ", "serving /name ", "serving /memory ", "127.0.0.1:" + tcp, "127.0.0.1:" + rdma, "\n  callers: ",
		"\n  nfsrdma mount -o port=" + rdma + " 127.0.0.1:/name /mnt\n",
		"mount -o vers=3,proto=rdma,port=" + rdma + ",nolock,mountproto=tcp,mountport=" + tcp + " 127.0.0.1:/name /mnt",
		"\nand 2 more exports in the same way\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s", want, r.out)
		}
	}
	if n := strings.Count(r.out, "\n  nfsrdma mount "); n != 3 {
		t.Errorf("%d exports of 5 have commands to mount them, want 3:\n%s", n, r.out)
	}
}

func TestRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	state := "--state-dir=" + filepath.Join(dir, "state")
	other, err := os.Create(filepath.Join(t.TempDir(), "locks.lock"))
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer other.Close()
	if err := os.Chmod(filepath.Dir(other.Name()), 0o700); err != nil {
		// other tests have set the umask to 0, so this mode must be set explicitly
		t.Fatalf("os.Chmod: %v", err)
	}
	must.Succeed(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))
	for want, args := range map[string][]string{
		"nothing to export":               {"serve", state},
		"does not exist":                  {"serve", state, filepath.Join(dir, "nothing")},
		"not a directory":                 {"serve", state, file},
		"is in use":                       {"serve", state, dir, "--tcp-port", port, "--rdma-port", "0"},
		"nothing to serve on":             {"serve", state, dir, "--tcp-port", "0", "--rdma-port", "0"},
		"must be on, off, auto or strict": {"serve", state, dir, "--crc", "perhaps"},
		"--log-level":                     {"serve", state, dir, "--log-level", "loud"},
		"must be text or json":            {"serve", state, dir, "--log-format", "xml"},
		"must be auto, serve, off":        {"serve", state, dir, "--rpcbind", "no"},
		"or 0 to keep the locks":          {"serve", state, dir, "--locks-gone=-5s"},
		"exports " + dir + " twice":       {"serve", state, dir, dir},
		"unknown flag":                    {"serve", "--nothing"},
		"as in --rdma auto DIR":           {"serve", state, "--rdma", dir},
		"must be on or off":               {"serve", state, "--locks", "no"},
		"create it, or name another":      {"serve", state, "--exports", filepath.Join(dir, "none")},
		"say --ephemeral-key":             {"serve", "--state-dir", file, dir},
		"clean absolute path":             {"serve", state, "--memory=x"},
		"stop that server, or name":       {"serve", "--state-dir", filepath.Dir(other.Name()), dir, "--tcp-port", "0", "--rdma", "iwarp", "--rdma-port", freePort(t), "--rpcbind", "off"},
	} {
		_, err := run(context.Background(), args...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("nfsrdmad %s: %v, want %q in one line", strings.Join(args, " "), err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"completion", "bash"}, {"--version"}} {
		if out, err := run(context.Background(), args...); err != nil || len(out) == 0 {
			t.Errorf("nfsrdmad %v: %v", args, err)
		}
	}
	if out, _ := run(context.Background(), "serve", "--help"); !strings.Contains(out, "Examples:") || !strings.Contains(out, "--rdma-port") {
		t.Errorf("help lacks examples or flags:\n%s", out)
	}
}

// TestProviders: RoCE is omitted if it is unavailable, unless it was requested.
func TestProviders(t *testing.T) {
	at := "192.0.2.1:20049"
	for word, want := range map[string]nfsserver.Listen{"auto": {RDMA: at, RoCE: at, RoCEOptional: true}, "iwarp": {RDMA: at}, "roce": {RoCE: at}, "iwarp,roce": {RDMA: at, RoCE: at}} {
		var l nfsserver.Listen
		if err := (&options{rdma: word, rdmaPort: 20049}).providers(&l, "192.0.2.1"); err != nil || l.RDMA != want.RDMA || l.RoCE != want.RoCE || l.RoCEOptional != want.RoCEOptional {
			t.Errorf("%s: %+v, %v", word, l, err)
		}
	}
	if err := (&options{rdma: "siw"}).providers(&nfsserver.Listen{}, ""); err == nil || !strings.Contains(err.Error(), "iwarp,roce") {
		t.Errorf("providers: %v, want %q", err, "iwarp,roce")
	}
}

// The command for our client contains only unusual settings, and RDMA comes first.
func TestClientLine(t *testing.T) {
	at := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	for _, c := range []struct {
		s    *nfsserver.Service
		want string
	}{
		{&nfsserver.Service{RDMAAddr: at(20049), TCPAddr: at(2049)}, "nfsrdma mount 10.0.0.1:/x /mnt"},
		{&nfsserver.Service{RDMAAddr: at(7), TCPAddr: at(2049)}, "nfsrdma mount -o port=7 10.0.0.1:/x /mnt"},
		{&nfsserver.Service{RoCEAddr: at(20049), TCPAddr: at(2049)}, "nfsrdma mount -o rdma=roce 10.0.0.1:/x /mnt"},
		{&nfsserver.Service{RoCEAddr: at(7)}, "nfsrdma mount -o rdma=roce,port=7 10.0.0.1:/x /mnt"},
		{&nfsserver.Service{TCPAddr: at(2049)}, "nfsrdma mount -o proto=tcp 10.0.0.1:/x /mnt"},
		{&nfsserver.Service{TCPAddr: at(8)}, "nfsrdma mount -o proto=tcp,port=8 10.0.0.1:/x /mnt"},
	} {
		if got := clientLine("/x", c.s, &mountDemand{}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestMountLinesForAShell: in the printed commands an export is one word for the shell, whatever
// its name.
func TestMountLinesForAShell(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2049}
	s := &nfsserver.Service{TCPAddr: at}
	for name, want := range map[string]string{"/srv/data": "10.0.0.1:/srv/data", "/srv/a b": "10.0.0.1:'/srv/a b'", "/it's $x": `10.0.0.1:'/it'\''s $x'`} {
		lines := append(mountLines(name, s, &portMapping{known: true, locks: true}, &mountDemand{}), clientLine(name, s, &mountDemand{}))
		for i, begin := range []string{"mount -o vers=3,proto=tcp ", "nfsrdma mount -o proto=tcp "} {
			if lines[i] != begin+want+" /mnt" {
				t.Errorf("%s", lines[i])
			}
		}
	}
}
