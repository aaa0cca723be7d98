// The program: accepted and refused volumes, and use of the served ones.

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/several"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serverEnv is the environment in which the test's program is the server, with its arguments.
const serverEnv = "NFSRDMA_JUICEFS_SERVER"

// parallel is the number of tests that run concurrently. Most of their time they wait for absent or
// killed services.
const parallel = "6"

func TestMain(m *testing.M) {
	several.Main()
	if args := os.Getenv(serverEnv); args != "" {
		os.Args = append([]string{"nfsrdmad-juicefs"}, strings.Split(args, "\n")...)
		os.Exit(program.Main(kind()))
	}
	if name := os.Getenv(workerEnv); name != "" {
		os.Exit(runWorker(name))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	rc := m.Run()
	juicefstest.Done()
	if clientDir != "" {
		os.RemoveAll(clientDir)
	}
	os.Exit(rc)
}

// run runs the program until ctx ends.
func run(ctx context.Context, args ...string) (out string, err error) {
	var b bytes.Buffer
	root := program.NewRoot(kind())
	root.SetArgs(args)
	root.SetOut(&b)
	err = root.ExecuteContext(ctx)
	return b.String(), err
}

func TestNamesOfExports(t *testing.T) {
	for arg, want := range map[string][2]string{
		"redis://h/1":                                       {"redis://h/1", ""},
		"redis://h/1=/vol":                                  {"redis://h/1", "/vol"},
		"/srv/volume":                                       {"/srv/volume", ""},
		"/srv/volume=/vol":                                  {"/srv/volume", "/vol"},
		"postgres://h/db?sslmode=disable":                   {"postgres://h/db?sslmode=disable", ""},
		"postgres://h/db?sslmode=disable=/vol":              {"postgres://h/db?sslmode=disable", "/vol"},
		"postgres://h/db?sslrootcert=/etc/ca.pem":           {"postgres://h/db?sslrootcert=/etc/ca.pem", ""},
		"postgres://h/db?a=b&sslrootcert=/etc/ca.pem":       {"postgres://h/db?a=b&sslrootcert=/etc/ca.pem", ""},
		"postgres://h/db?a=b&sslrootcert=/etc/ca.pem=/v/ol": {"postgres://h/db?a=b&sslrootcert=/etc/ca.pem", "/v/ol"},
	} {
		if volume, name := cutName(arg); volume != want[0] || name != want[1] {
			t.Errorf("%s: %q and %q", arg, volume, name)
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	must.Succeed(t, os.MkdirAll(filepath.Join(full, "photos"), 0o755))
	exports := filepath.Join(dir, "exports")
	must.Succeed(t, os.WriteFile(exports, []byte("/other *(rw)\n"), 0o644))
	subtree := filepath.Join(dir, "subtree")
	must.Succeed(t, os.WriteFile(subtree, []byte("/vol *(rw,subtree_check)\n"), 0o644))
	volume := filepath.Join(dir, "volume") + "=/vol"
	for want, args := range map[string][]string{
		"name a volume":        {},
		"neither empty nor":    {full},
		"Invalid meta driver":  {"nosuch://host/1=/vol"},
		"at least 32M":         {volume, "--buffer-size", "1M"},
		"--cache-size":         {volume, "--cache-size", "many"},
		"at least 1s":          {volume, "--heartbeat", "10ms"},
		"--max-uploads":        {volume, "--max-uploads", "0"},
		"does not name /vol":   {volume, "--exports", exports},
		"subtree_check is for": {volume, "--exports", subtree},
		"clean absolute path":  {filepath.Join(dir, "volume") + "=/vol/../x y", "--memory=x"},
		"unknown flag":         {volume, "--crossmnt"},
	} {
		args = append([]string{"serve", "--state-dir", filepath.Join(dir, "state"), "--tcp-port", "0", "--rdma-port", strconv.Itoa(machine.Port(t)), "--rpcbind", "off"}, args...)
		if _, err := run(t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("nfsrdmad-juicefs %s: %v, want %q in one line", strings.Join(args, " "), err, want)
		}
	}
}

// TestFlagsOfVolumes: the flags of juicefs mount reach the volume, converted to its units.
// (JuiceFS's disk cache is not tested here, because the race detector finds races in it.)
func TestFlagsOfVolumes(t *testing.T) {
	var s settings
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f)
	if err := f.Parse(strings.Fields("--cache-dir /c --cache-size 2G --buffer-size 64M --upload-limit 10 --download-limit 20 --max-uploads 3 --heartbeat 2s --io-retries 4 --subdir d")); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	o, err := s.options(true)
	want := juicefs.Options{Dir: "d", CacheDir: "/c", CacheSize: 2 << 30, BufferSize: 64 << 20, UploadLimit: 10, DownloadLimit: 20, MaxUploads: 3,
		Heartbeat: 2 * time.Second, Retries: 4, SharedReplies: true, ReadOnly: true}
	if err != nil || o != want {
		t.Errorf("%+v, %v, want %+v", o, err, want)
	}
}

// A server is a server running in this process.
type server struct {
	addr string
	stop func() string // ends it and returns its output
}

// serve runs the server until the test ends.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	port := strconv.Itoa(machine.Port(t))
	dir := t.TempDir()
	args = append([]string{"serve", "--state-dir", filepath.Join(dir, "state"), "--control", filepath.Join(dir, "control"), "--tcp-port", port, "--rdma-port", "0", "--rpcbind", "off", "--log-level", "error"}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err := run(ctx, args...)
		done <- result{out, err}
	}()
	s := &server{addr: "127.0.0.1:" + port}
	s.stop = func() string {
		cancel()
		<-ended
		r := <-done
		done <- r
		if r.err != nil {
			t.Error(r.err)
		}
		return r.out
	}
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	s.await(t, ended)
	return s
}

// await returns when the server listens.
func (s *server) await(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		c, err := nfsclient.Dial(ctx, s.addr, nfsclient.Options{Transport: nfsclient.TCP})
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("the server has ended: %s", s.stop())
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func mount(t *testing.T, addr, name string) (*nfsclient.FS, error) {
	t.Helper()
	c, err := nfsclient.Dial(t.Context(), addr, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Mount(t.Context(), name)
}

// TestEmbeddedVolume: a missing directory becomes a volume, is served under its path, and has its
// data after a restart; the server's output names the volume.
func TestEmbeddedVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume")
	s := serve(t, dir, "--no-root-squash")
	fs, err := mount(t, s.addr, dir)
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	if err := fs.WriteFile(t.Context(), "f", []byte("kept"), 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	if out := s.stop(); !strings.Contains(out, "serving "+dir+" (read-write)") {
		t.Errorf("it has told:\n%s", out)
	}
	s = serve(t, dir+"=/other", "--no-root-squash", "--read-only")
	if fs, err = mount(t, s.addr, "/other"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	if b, err := fs.ReadFile(t.Context(), "f"); err != nil || string(b) != "kept" {
		t.Errorf("after the restart %q, %v", b, err)
	}
	if err := fs.WriteFile(t.Context(), "g", nil, 0o600); err == nil {
		t.Error("a read-only export could be written to")
	}
}

// TestRulesOfVolumes: an exports file controls access to a volume, and a changed file is reloaded
// while it is served.
func TestRulesOfVolumes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "exports")
	rules := func(text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
	}
	rules("/vol 192.0.2.1(rw)\n")
	s := serve(t, filepath.Join(dir, "volume")+"=/vol", "--exports", file)
	if _, err := mount(t, s.addr, "/vol"); err == nil {
		t.Fatal("a client that the file does not name could mount")
	}
	rules("/vol 127.0.0.0/8(rw,no_root_squash,insecure)\n")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	var fs *nfsclient.FS
	for fs == nil {
		var err error
		if fs, err = mount(t, s.addr, "/vol"); ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if err := fs.WriteFile(t.Context(), "f", []byte("x"), 0o600); err != nil {
		t.Errorf("WriteFile: %v", err)
	}
}

// TestHelp: each command names this program.
func TestHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, text := range []string{c.Long, c.Example} {
			for _, word := range strings.Fields(text) {
				if word == "nfsrdmad" || strings.Contains(word, "juicefs-juicefs") {
					t.Errorf("%s: %q in\n%s", c.CommandPath(), word, text)
				}
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(program.NewRoot(kind()))
	dir := t.TempDir()
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"completion", "bash"}, {"--version"}, {"man", dir}} {
		if out, err := run(t.Context(), args...); err != nil || len(out) == 0 && args[0] != "man" {
			t.Errorf("%v: %v", args, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "man8", "nfsrdmad-juicefs-serve.8"))
	if err != nil || !bytes.Contains(page, []byte("cache")) || !bytes.Contains(page, []byte("redis://")) {
		t.Errorf("the manual page of serve: %v", err)
	}
}
