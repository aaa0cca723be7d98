// A running server as its control socket shows it: clients over all transports, locks, exports, and
// drain.

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/cmd/internal/jsontest"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// controlEnv passes the prefix of directory names to servers in separate processes.
const controlEnv = "NFSRDMA_TEST_CONTROL"

// TestMain keeps servers that run as root without a --control flag from using the machine's
// sockets. Files left by servers that were killed or have exited are removed when the first process
// ends.
func TestMain(m *testing.M) {
	prefix, child := os.LookupEnv(controlEnv)
	if !child {
		prefix = fmt.Sprintf("control%d-", os.Getpid())
		os.Setenv(controlEnv, prefix)
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		panic(err)
	}
	runDir = filepath.Join(dir, "run")
	os.Setenv("XDG_RUNTIME_DIR", dir)
	code := m.Run()
	left := []string{dir}
	if !child {
		left, _ = filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	}
	for _, dir := range left {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// shape returns the fields of a JSON value and their types; for an array the shape of its first
// element.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, name+":"+shape(v[name]))
		}
		return "{" + strings.Join(fields, " ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", v)
}

// mechanismsShape returns the shape of the mechanisms that a directory's server lists after an
// iWARP connection.
func mechanismsShape() string {
	all := map[string]any{}
	for _, name := range []string{"spin", "block", "yield", "poller_mask", "caller_receive", "run_on_receiver", "early_flush", "call_yield", "cold_read", "read_at_once", "parallel_listing",
		"batch_yield", "early_retransmit", "join_packets", "reorder"} {
		all[name] = map[string]any{"won": 0.0, "lost": 0.0, "passed": 0.0}
	}
	return shape(all)
}

// view runs a command with --json and parses its output.
func view(t *testing.T, socket string, args ...string) map[string]any {
	t.Helper()
	out, err := run(context.Background(), append(args, "--json", "--control", socket)...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	jsontest.Documented(t, "../../../docs", "nfsrdmad", args, out)
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %v in %s", args, err, out)
	}
	return v
}

// mounted connects over a transport and mounts path.
func mounted(t *testing.T, addr, path string, o nfsclient.Options) *nfsclient.FS {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := nfsclient.Dial(ctx, addr, o)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	f, err := c.Mount(ctx, path)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	return f
}

// lockOne takes a lock of the file f of an export by hand.
func lockOne(t *testing.T, addr, export string) {
	t.Helper()
	rpc, err := transport.DialTCP(context.Background(), addr, transport.ClientConfig{Cred: transport.SysCred()})
	if err != nil {
		t.Fatalf("DialTCP: %v", err)
	}
	t.Cleanup(func() { rpc.Close() })
	var at mount3.MntRes
	mnt := transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: mount3.ProcMnt, Name: "MNT", MaxReply: 4 << 10}
	if err := rpc.Call(context.Background(), &mnt, &mount3.PathArgs{Path: export}, &at, nil, 0); err != nil || at.Status != mount3.OK {
		t.Fatal(err, at.Status)
	}
	var found nfs3.LookupRes
	fh, _ := nfs3.MakeFH(at.Handle)
	look := transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcLookup, Name: "LOOKUP", MaxReply: 4 << 10}
	if err := rpc.Call(context.Background(), &look, &nfs3.LookupArgs{Dir: fh, Name: []byte("f")}, &found, nil, 0); err != nil || found.Status != nfs3.OK {
		t.Fatal(err, found.Status)
	}
	a := nlm4.LockArgs{Cookie: []byte{1}, Exclusive: true, Lock: nlm4.Lock{Caller: []byte("pc\x1b[7m7"), FH: found.FH.Bytes(), Owner: []byte{0xab, 0xcd}, Svid: 77, Offset: 5, Length: 10}}
	var res nlm4.Res
	lock := transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: nlm4.ProcLock, Name: "LOCK", MaxReply: 4 << 10}
	if err := rpc.Call(context.Background(), &lock, &a, &res, nil, 0); err != nil || res.Status != nlm4.Granted {
		t.Fatal(err, res.Status)
	}
}

// Shapes of answers, with a client over each transport and a lock.
const (
	rdmaShape = "rdma:{crc:bool credits_granted:float64 credits_used:float64 inline_receive_bytes:float64 inline_send_bytes:float64 ird:float64 ord:float64 private_data:bool remote_invalidation:bool} "

	statusShape = "{budget_limit_bytes:float64 budget_used_bytes:float64 bytes_in:float64 bytes_out:float64 calls:float64 " +
		"connections:{rdma/iwarp:float64 rdma/roce:float64 tcp:float64} descriptors_limit:float64 descriptors_used:float64 exports_file:string " +
		"exports_read:string grace_seconds:float64 listeners:[{address:string transport:string}] mechanisms:%s pid:float64 program:string %srevision:string " +
		"started:string state:string uptime_seconds:float64 version:string}"
	clientShape  = "{address:string age_seconds:float64 bytes_in:float64 bytes_out:float64 calls:float64 exports:%s idle_seconds:float64 other_users_calls:float64 %stransport:string users:[{calls:float64 idle_seconds:float64 sec:string uid:float64}] xprtsec:string}"
	locksShape   = "{busy_files:float64 grace_seconds:float64 locks:[{address:string age_seconds:float64 end:float64 export:string file:string host:string kind:string owner:string path:string start:float64 state:string svid:float64}] more:bool on:bool}"
	exportsShape = "{exports:[{clients:[{client:string options:string}] command_line:bool id:float64 options:[] path:string state:string}] file:string}"
	drainShape   = "{connections:float64 draining:bool}"
)

// TestSight: each command shows clients over TCP, iWARP and RoCE, with a directory and memory as
// exports, and a client with a lock.
func TestSight(t *testing.T) {
	dir := t.TempDir()
	disk, file, socket := filepath.Join(dir, "a #b"), filepath.Join(dir, "exports"), filepath.Join(dir, "control")
	host, tcp, rdma := machine.Addr(t).String(), freePort(t), freePort(t)
	must.Succeed(t, os.Mkdir(disk, 0o777), os.Chmod(disk, 0o777))
	put(t, filepath.Join(disk, "f"), "data")
	put(t, file, `"`+disk+"\" *(rw,insecure,no_root_squash,fsid=7)\n")
	end := serveArgs(t, "serve", "--addr", host, "--rdma", "iwarp,roce", "--rdma-port", rdma, "--tcp-port", tcp, "--memory", "--exports", file,
		"--control", socket, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off", "--log-level", "panic")
	defer end()
	at := func(port string) string { return net.JoinHostPort(host, port) }
	dialServe(t, at(tcp)).Close()
	awaitControl(t, socket)
	over := map[string]*nfsclient.FS{
		overTCP:   mounted(t, at(tcp), "/memory", nfsclient.Options{Transport: nfsclient.TCP}),
		overIWARP: mounted(t, at(rdma), disk, nfsclient.Options{}),
		overRoCE:  mounted(t, at(rdma), "/memory", nfsclient.Options{Provider: nfsclient.RoCE}),
	}
	for name, f := range over {
		if err := f.WriteFile(context.Background(), "w", make([]byte, 100<<10), 0o644); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	lockOne(t, at(tcp), disk)

	put(t, file, "a mistake\n")
	if _, err := run(context.Background(), "reload", "--control", socket); err == nil {
		t.Error("a mistake was taken in")
	}
	s := view(t, socket, "status")
	if got, want := shape(s), fmt.Sprintf(statusShape, mechanismsShape(), "refused_reload:{error:string time:string} "); got != want {
		t.Errorf("status:\n%s\n%s", got, want)
	}
	if c := s["connections"].(map[string]any); c[overIWARP] != 1.0 || c[overRoCE] != 1.0 || s["pid"] != float64(os.Getpid()) || s["state"] != "serving" {
		t.Errorf("status: %v", s)
	}
	if len(s["listeners"].([]any)) != 3 || s["bytes_in"].(float64) < 300<<10 || !strings.Contains(fmt.Sprint(s["refused_reload"]), file+":1:") {
		t.Errorf("status: %v", s)
	}
	list := view(t, socket, "clients")["clients"].([]any)
	seen := map[string]map[string]any{}
	for _, c := range list {
		row := c.(map[string]any)
		if name := row["transport"].(string); name != overTCP || fmt.Sprint(row["exports"]) == "[/memory]" {
			seen[name] = row
		}
	}
	for name, used := range map[string]string{overTCP: "/memory", overIWARP: disk, overRoCE: "/memory"} {
		c, rdma := seen[name], rdmaShape
		if name == overTCP {
			rdma = ""
		}
		if got, want := shape(c), fmt.Sprintf(clientShape, "[string]", rdma); c == nil || got != want {
			t.Errorf("clients:\n%s\n%s", got, want)
			continue
		}
		if u := c["users"].([]any); len(u) != 1 || u[0].(map[string]any)["uid"] != float64(os.Getuid()) || u[0].(map[string]any)["calls"].(float64) < 3 {
			t.Errorf("client over %s: users %v", name, u)
		}
		if e := c["exports"].([]any); len(e) != 1 || e[0] != used || c["bytes_in"].(float64) < 100<<10 || c["calls"].(float64) < 3 {
			t.Errorf("client over %s: %v", name, c)
		}
	}
	locks := view(t, socket, "locks")
	if got := shape(locks); got != locksShape {
		t.Errorf("locks:\n%s\n%s", got, locksShape)
	}
	l := locks["locks"].([]any)[0].(map[string]any)
	if l["path"] != filepath.Join(disk, "f") || l["svid"] != 77.0 || l["owner"] != "abcd" || l["start"] != 5.0 || l["end"] != 14.0 || l["kind"] != "write" || l["state"] != "held" {
		t.Errorf("lock: %v", l)
	}
	x := view(t, socket, "exports")
	if got := shape(x); got != exportsShape {
		t.Errorf("exports:\n%s\n%s", got, exportsShape)
	}
	asText(t, socket, disk)
}

// asText checks the commands' output on a terminal, and that printed exports work as another
// server's file.
func asText(t *testing.T, socket, disk string) {
	t.Helper()
	for command, want := range map[string]string{"status": "connections  ", "clients": " USERS ", "locks": `pc\033[7m7`} {
		if out, err := run(context.Background(), command, "--control", socket); err != nil || !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: %q, %v, want %q", command, out, err, want)
		}
	}
	out, err := run(context.Background(), "exports", "--control", socket)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	f, err := exports.Parse("exports", []byte(out))
	if err != nil || len(f.Exports) != 2 || !strings.Contains(out, "from the command line") {
		t.Fatalf("%+v, %v, want 2 exports from the command line:\n%s", f, err, out)
	}
	if f.Exports[0].Path != "/memory" || f.Exports[1].Path != disk || !f.Exports[1].Whole.HasFSID {
		t.Errorf("%+v, want /memory, and %s with an fsid", f.Exports, disk)
	}
	if got, want := f.Exports[1].Clients[0].Options.String(), "rw,sync,insecure,no_root_squash"; got != want {
		t.Errorf("options %s, want %s", got, want)
	}
}

// serveArgs runs a command until end is called.
func serveArgs(t *testing.T, args ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := run(ctx, args...)
		done <- err
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("at its end: %v", err)
		}
	}
}

// TestDrainUnderLoad: no call of the old client fails, a new one is refused, and drain ends when
// the old one has left.
func TestDrainUnderLoad(t *testing.T) {
	dir := t.TempDir()
	socket, tcp := filepath.Join(dir, "control"), freePort(t)
	defer serveArgs(t, "serve", "--memory", "--rdma-port", "0", "--tcp-port", tcp, "--control", socket, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off", "--log-level", "panic")()
	c := dialServe(t, "127.0.0.1:"+tcp)
	awaitControl(t, socket)
	f, err := c.Mount(context.Background(), "/memory")
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	var done atomic.Bool
	var calls, failed atomic.Int64
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for !done.Load() {
				if err := f.WriteFile(context.Background(), fmt.Sprint(i), []byte("data"), 0o644); err != nil {
					failed.Add(1)
				}
				calls.Add(1)
			}
		})
	}
	before := calls.Load()
	if _, err := run(context.Background(), "drain", "--timeout", "1ms", "--control", socket); err == nil || !strings.Contains(err.Error(), "--undo") {
		t.Errorf("drain with a client: %v", err)
	}
	if s := view(t, socket, "status"); s["state"] != "draining" {
		t.Errorf("state %v", s["state"])
	}
	null := func() error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		rpc, err := transport.DialTCP(context.Background(), "127.0.0.1:"+tcp, transport.ClientConfig{Dial: d.DialContext, MaxRetries: -1})
		if err != nil {
			return err
		}
		defer rpc.Close()
		return rpc.Call(context.Background(), &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}, nil, nil, nil, 0)
	}
	if null() == nil {
		t.Error("a new client is taken")
	}
	for calls.Load() < before+50 {
		time.Sleep(time.Millisecond)
	}
	done.Store(true)
	load.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d calls of the old client failed", n, calls.Load())
	}
	ended := make(chan map[string]any)
	go func() { ended <- view(t, socket, "drain") }()
	c.Close()
	if got := <-ended; shape(got) != drainShape || got["connections"] != 0.0 {
		t.Errorf("drain: %v", got)
	}
	if got := view(t, socket, "drain", "--undo"); got["draining"] != false {
		t.Errorf("drain --undo: %v", got)
	}
	if err := null(); err != nil {
		t.Errorf("after drain --undo: %v", err)
	}
}

// TestManyClients: the list has one line for each of 200 connections.
func TestManyClients(t *testing.T) {
	dir := t.TempDir()
	socket, tcp := filepath.Join(dir, "control"), freePort(t)
	defer serveArgs(t, "serve", "--memory", "--rdma-port", "0", "--tcp-port", tcp, "--control", socket, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off", "--log-level", "panic")()
	dialServe(t, "127.0.0.1:"+tcp)
	awaitControl(t, socket)
	for range 200 {
		c, err := net.Dial("tcp", "127.0.0.1:"+tcp)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer c.Close()
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		list := view(t, socket, "clients")["clients"].([]any)
		different := map[any]bool{}
		for _, c := range list {
			different[c.(map[string]any)["address"]] = true
		}
		if len(different) > 200 && len(list) == len(different) {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d connections, %d addresses", len(list), len(different))
		}
	}
	if out, err := run(context.Background(), "clients", "--control", socket); err != nil || strings.Count(out, "\n") < 202 {
		t.Errorf("%d lines, %v", strings.Count(out, "\n"), err)
	}
}

// TestNoServer: without a server the error is one line with the remedy.
func TestNoServer(t *testing.T) {
	for _, command := range []string{"status", "clients", "locks", "exports", "drain"} {
		_, err := run(context.Background(), command, "--control", filepath.Join(t.TempDir(), "none"))
		if err == nil || !strings.Contains(err.Error(), "nfsrdmad serve") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestNoSocketOfThisUser: another user, without a session, reads that a server run by root answers
// only root.
func TestNoSocketOfThisUser(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	for _, command := range []string{"status", "clients", "locks", "exports", "reload", "drain"} {
		machine.AsUser(t, 65534, func() {
			_, err := run(context.Background(), command)
			if err == nil || !strings.Contains(err.Error(), "run this as root if root runs the server, or name its socket with --control") {
				t.Errorf("%s: %v, want it to say that root can ask", command, err)
			}
		})
	}
}

// TestReloadIfRunning: for logrotate, a missing server is no error, but a server's failure to
// reload is one.
func TestReloadIfRunning(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "control")
	if out, err := run(context.Background(), "reload", "--if-running", "--control", socket); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	s, err := control.Listen(socket, func(string) (any, error) { return nil, errors.New("the disk is full") })
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer s.Close()
	if _, err := run(context.Background(), "reload", "--if-running", "--control", socket); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("%v", err)
	}
}

// TestDefaultSocket: without flags, commands find a server without flags, and a second server
// leaves its socket alone.
func TestDefaultSocket(t *testing.T) {
	dir := t.TempDir()
	first, second := freePort(t), freePort(t)
	start := func(tcp string) func() {
		return serveArgs(t, "serve", "--memory", "--rdma-port", "0", "--tcp-port", tcp, "--state-dir", filepath.Join(dir, tcp), "--rpcbind", "off", "--log-level", "panic")
	}
	for range 2 { // the second server replaces the socket of the first
		end := start(first)
		dialServe(t, "127.0.0.1:"+first)
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			if _, err := run(context.Background(), "status"); err == nil {
				break
			} else if time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
		other := start(second)
		dialServe(t, "127.0.0.1:"+second)
		out, err := run(context.Background(), "status")
		if err != nil || !strings.Contains(out, ":"+first) {
			t.Errorf("%s, %v", out, err)
		}
		other()
		if _, err := run(context.Background(), "status"); err != nil {
			t.Errorf("after the end of another server: %v", err)
		}
		end()
		if _, err := run(context.Background(), "status"); err == nil {
			t.Error("a server that has ended answers")
		}
	}
}

// TestUserCell: the cell shows a client's most recent users, and how many others there are.
func TestUserCell(t *testing.T) {
	uid := func(n uint32) userReport { return userReport{UID: &n} }
	for want, users := range map[string][]userReport{
		"-":             nil,
		"0":             {uid(0)},
		"1000,none":     {uid(1000), {}},
		"1,2,3,4":       {uid(1), uid(2), uid(3), uid(4)},
		"1,2,3,none,+2": {uid(1), uid(2), uid(3), {}, uid(5), uid(6)},
	} {
		if got := userCell(users); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDocumentedKeys: the reference has each key of the answers, including optional ones.
func TestDocumentedKeys(t *testing.T) {
	for command, v := range map[string]any{
		"status": &statusReport{}, "clients": &clientsReport{}, "exports": &exportsReport{}, "locks": &locksReport{}, "drain": &drainReport{},
	} {
		jsontest.Fill(v)
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		jsontest.Documented(t, "../../../docs", "nfsrdmad", []string{command}, string(b))
	}
}
