// The rig for tests that mount: a child process serves a directory and mounts it.

package fusefs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// childEnv has the description of the mount in a child process's environment. The child must be
// another process, because a process that uses its own mount might not be killable.
const childEnv = "NFSRDMA_FUSEFS_TEST"

// A description states which directory the child exports and how it mounts that directory.
type description struct {
	Export string // the exported directory
	Dir    string // the mount point
	RDMA   bool
	Port   int    // the server's port, also after a restart
	Twin   string // the mount point of another client; "": none
	Opt    options
}

// options has those parts of fusefs.Options that tests set.
type options struct {
	AllowOther, ReadOnly, NoACL, NoAC, NoCTO, Sync bool
	Remember                                       bool // the server remembers removed files
	Twice                                          bool // the server runs each CREATE twice
	Full                                           bool // the server has no space for times
	Shared                                         bool // the server omits wcc attributes
	Plain                                          bool // the server's file system has no ACLs
	Slow                                           bool // see slowFS
	NoLocks                                        bool // the server has no lock manager
	LocalLocks                                     bool
	OwnPIDs                                        bool // the mount has its own PID namespace
	AcMin, AcMax                                   time.Duration
	LookupCache                                    fusefs.LookupCache
	Words                                          string // mount options as text
	MaxFile                                        uint64 // FSINFO's maxfilesize; 0: the disk's
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		var d description
		err := json.Unmarshal([]byte(text), &d)
		if err == nil {
			err = d.serve()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// boundNodes is the bound that the lines "bound nodes" and "bound names" set.
const boundNodes = 64

// restart stops the server and starts it again without its memory. It works only over TCP.
var restart func() error

// obey runs the commands in standard input on the mount until the input ends.
func obey(m *fusefs.MountPoint) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "stats":
			text, _ := json.Marshal(m.Stats())
			fmt.Println(string(text))
		case "unseen":
			fusefs.Unseen(m, "1001", "1002")
			fmt.Println("unseen")
		case "forget names":
			fusefs.ForgetNames(m)
			fmt.Println("forgotten")
		case "sleep":
			fusefs.Sleep(m, 2*long)
			fmt.Println("slept")
		case "hold notices":
			fusefs.SuppressNotices(m)
			fmt.Println("held")
		case "let notices go":
			fusefs.StartNotices(m)
			fmt.Println("they go")
		case "send notices":
			fusefs.SendNotices(m)
			fmt.Println("sent")
		case "hold long":
			fusefs.DeferFor(m, long)
			fmt.Println("held")
		case "bound nodes", "bound names":
			fusefs.BoundNodes(m, boundNodes, in.Text() == "bound names")
			fmt.Println("bound")
		case "restart":
			if err := restart(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			fmt.Println("started")
		case "stall":
			stall.Lock()
			fmt.Println("stalled")
		case "hold reads":
			reads.Lock()
			fmt.Println("held")
		case "await a read":
			<-readsHeld
			fmt.Println("it waits")
		case "answer reads":
			reads.Unlock()
			fmt.Println("answered")
		case "go":
			stall.Unlock()
			fmt.Println("goes on")
		}
	}
}

// serve runs the child: it prints "ready", unmounts at the end of its input, and prints
// "unmounted".
func (d *description) serve() error {
	ctx := context.Background()
	srv, err := d.exported()
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "nfsrdma-fusefs-state")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	var locks *nlm.Service
	programs := func() []*transport.Program {
		if d.Opt.NoLocks {
			return srv.Programs()
		}
		if locks, err = nlm.New(srv, nlm.Options{StateDir: state, Grace: time.Hour}); err != nil {
			panic(err)
		}
		return append(srv.Programs(), locks.Programs()...)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, programs()...)
	opt := nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: transport.Hard}
	if d.RDMA {
		opt.Transport = nfsclient.RDMA
	}
	addr, err := listen(rpc, d)
	if err != nil {
		return err
	}
	restart = func() error {
		if err := rpc.Shutdown(ctx); err != nil {
			return err
		}
		locks.Close()
		again := programs()
		l, err := net.Listen("tcp", addr.String())
		if err != nil {
			return err
		}
		rpc = transport.NewServer(transport.ServerConfig{}, again...)
		go rpc.ServeTCP(l)
		return nil
	}
	opt.RetryTimeout = time.Hour // the transport must not end the stalls that tests make
	opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &stallConn{conn}, err
	}
	if d.Twin != "" {
		end, err := d.mountAt(ctx, addr.String(), opt, d.Twin, func(*fusefs.MountPoint) {})
		if err != nil {
			return err
		}
		defer end()
	}
	end, err := d.mountAt(ctx, addr.String(), opt, d.Dir, func(m *fusefs.MountPoint) {
		fmt.Println("ready")
		obey(m)
	})
	if err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	fmt.Println("unmounted")
	return nil
}

// listen makes the server accept connections.
func listen(rpc *transport.Server, d *description) (net.Addr, error) {
	at := fmt.Sprint("127.0.0.1:", d.Port)
	if d.RDMA {
		dev := iwarp.Open(rnic.DeviceConfig{})
		l, err := dev.Listen("tcp", at)
		if err != nil {
			return nil, err
		}
		go rpc.ServeRDMA(dev, l)
		return l.Addr(), nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	go rpc.ServeTCP(l)
	return l.Addr(), nil
}

// exported returns a Server for the export.
func (d *description) exported() (*nfsserver.Server, error) {
	tree, err := osfs.New(d.Export, osfs.Options{})
	if err != nil {
		return nil, err
	}
	var served nfsserver.FS = tree
	if d.Opt.Plain {
		served = struct{ nfsserver.FS }{tree} // without osfs's optional methods
	}
	if d.Opt.Remember {
		served = &rememberingFS{FS: tree, known: make(map[nfsserver.Ref]nfsserver.Attr)}
	}
	if d.Opt.Twice {
		served = repeatingFS{served}
	}
	if d.Opt.Full {
		served = fullFS{served}
	}
	if d.Opt.MaxFile > 0 {
		served = smallFS{served, d.Opt.MaxFile}
	}
	if d.Opt.Slow {
		served = slowFS{served}
	}
	if d.Opt.Shared {
		served = sharedFS{served}
	}
	return nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: "/export", FS: served}}, AsyncNames: true,
		Squash: nfsserver.Squash{NoRootSquash: true},
	})
}

// mountAt mounts the export and calls use with the mount; end unmounts.
func (d *description) mountAt(ctx context.Context, addr string, opt nfsclient.Options, dir string, use func(*fusefs.MountPoint)) (end func() error, err error) {
	client, err := nfsclient.Dial(ctx, addr, opt)
	if err != nil {
		return nil, err
	}
	fsys, err := client.Mount(ctx, "/export")
	if err != nil {
		return nil, err
	}
	m, err := fusefs.Mount(ctx, fsys, dir, fusefs.Options{
		LocalPosix: d.Opt.LocalLocks, LocalFlock: d.Opt.LocalLocks,
		Source: "test:/export", AllowOther: d.Opt.AllowOther, ReadOnly: d.Opt.ReadOnly, NoACL: d.Opt.NoACL, NoAC: d.Opt.NoAC, NoCTO: d.Opt.NoCTO,
		Sync: d.Opt.Sync, AcRegMin: d.Opt.AcMin, AcRegMax: d.Opt.AcMax, AcDirMin: d.Opt.AcMin, AcDirMax: d.Opt.AcMax,
		LookupCache: d.Opt.LookupCache, Direct: os.Geteuid() == 0, FuseOptions: strings.Fields(d.Opt.Words),
		Log: func(line string) { fmt.Fprintln(os.Stderr, "mount:", line) },
	})
	if err != nil {
		return nil, err
	}
	use(m)
	return func() error {
		defer client.Close()
		return m.Unmount()
	}, nil
}

// stall is locked while the server's answers do not arrive.
var stall sync.Mutex

// A stallConn is a connection whose peer seems silent while stall is locked.
type stallConn struct{ net.Conn }

func (c *stallConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	stall.Lock()
	defer stall.Unlock()
	return n, err
}

// say makes the child run a command, and waits until it has run.
func (m *mounted) say(word string) {
	m.t.Helper()
	fmt.Fprintln(m.in, word)
	if !m.out.Scan() {
		m.t.Fatalf("%s: the mount is gone", word)
	}
}

// A mounted is a mount in a child process.
type mounted struct {
	t      testing.TB
	export string // the server's directory, to be changed as another client would
	dir    string // the mount
	other  string // the other mount; "": there is none
	in     io.WriteCloser
	out    *bufio.Scanner
	cmd    *exec.Cmd
	done   bool
}

// mount mounts an empty directory; the end of the test unmounts it.
func mount(t testing.TB, opt options) *mounted { return mountOver(t, opt, false) }

func mountOver(t testing.TB, opt options, rdma bool) *mounted {
	t.Helper()
	return mountTwin(t, opt, rdma, false)
}

// mountTwin makes another mount of the same export at twin, if requested.
func mountTwin(t testing.TB, opt options, rdma, twin bool) *mounted {
	t.Helper()
	needFUSE(t)
	top := t.TempDir()
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil { // gives other users access
		t.Fatalf("chmod: %v", err)
	}
	d := description{Export: filepath.Join(top, "export"), Dir: filepath.Join(top, "mnt"), RDMA: rdma, Port: machine.Port(t), Opt: opt}
	dirs := []string{d.Export, d.Dir}
	if twin {
		d.Twin = filepath.Join(top, "twin")
		dirs = append(dirs, d.Twin)
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatalf("mkdir: %v", err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatalf("chmod: %v", err)
		}
	}
	text, err := json.Marshal(&d)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	m := &mounted{t: t, export: d.Export, dir: d.Dir, other: d.Twin, cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	m.cmd.Stderr = os.Stderr
	if opt.OwnPIDs {
		m.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	m.out = bufio.NewScanner(out)
	m.out.Buffer(nil, 1<<20)
	if err := m.cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(m.end)
	if !m.out.Scan() || m.out.Text() != "ready" {
		m.done = true
		t.Fatalf("the mount does not come up: %q, %v", m.out.Text(), m.cmd.Wait())
	}
	return m
}

// end unmounts, and fails the test on any error.
func (m *mounted) end() {
	if m.done {
		return
	}
	m.done = true
	m.in.Close()
	unmounted := m.out.Scan() && m.out.Text() == "unmounted"
	if !unmounted {
		m.abort()
	}
	if err := m.cmd.Wait(); err != nil || !unmounted {
		m.t.Errorf("unmount: %v (%s)", err, m.cmd.Stderr)
	}
}

// abort ends a hanging mount through the kernel's control file, so that nothing waits for it.
func (m *mounted) abort() {
	var st syscall.Stat_t
	if syscall.Stat(m.dir, &st) == nil {
		_ = os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", st.Dev), []byte("1"), 0)
	}
	for _, dir := range []string{m.dir, m.other} {
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	}
	_ = m.cmd.Process.Kill()
}

// stats returns the mount's counters.
func (m *mounted) stats() (s fusefs.Stats) {
	m.t.Helper()
	fmt.Fprintln(m.in, "stats")
	if !m.out.Scan() {
		m.t.Fatal("no stats")
	}
	if err := json.Unmarshal(m.out.Bytes(), &s); err != nil {
		m.t.Fatalf("stats: %v", err)
	}
	return s
}

// at returns a path in the mount; there returns the same path on the server.
func (m *mounted) at(name string) string    { return filepath.Join(m.dir, name) }
func (m *mounted) twin(name string) string  { return filepath.Join(m.other, name) }
func (m *mounted) there(name string) string { return filepath.Join(m.export, name) }

// needFUSE skips the test if mounting is impossible.
func needFUSE(t testing.TB) {
	t.Helper()
	machine.NeedRoot(t, "mounts, and serves other users: needs root")
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		machine.Skip(t, fmt.Sprintf("needs /dev/fuse: %v", err))
	} else {
		f.Close()
	}
}

// want fails unless err is errno.
func want(t testing.TB, err error, errno syscall.Errno) {
	t.Helper()
	if !errors.Is(err, errno) {
		t.Errorf("got %v, want %v", err, errno)
	}
}
