// A program that serves something other than directories has its own name, files and sockets.

package program

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// volumes returns a Kind that serves volumes in memory.
func volumes(exports string) *Kind {
	help := Help{Use: "nfsrdmad-volumes", Short: "Serve volumes", Long: "nfsrdmad-volumes serves volumes."}
	serve := Help{Use: "serve VOLUME", Short: "Export volumes", Long: "Export volumes."}
	return &Kind{Program: help, Serve: serve, Exports: exports, Dir: "nfsrdma-volumes", Flags: func(*pflag.FlagSet) {},
		Volume: func(arg string, _ Settings) (Volume, error) {
			return Volume{Label: arg, Name: "/" + arg, Open: func() (nfsserver.FS, error) { return memfs.New(memfs.Options{}), nil }}, nil
		}}
}

func runKind(ctx context.Context, k *Kind, args ...string) (string, error) {
	var b bytes.Buffer
	root := NewRoot(k)
	root.SetArgs(args)
	root.SetOut(&b)
	err := root.ExecuteContext(ctx)
	return b.String(), err
}

// TestKindHelp: no help text names the program, the files or the sockets of nfsrdmad.
func TestKindHelp(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		text := c.Short + " " + c.Long + " " + c.Example
		c.Flags().VisitAll(func(f *pflag.Flag) { text += " " + f.Usage })
		for _, others := range []string{"nfsrdmad ", defaultExports, "/nfsrdma/control", "/var/lib/nfsrdma,", "volumes-volumes"} {
			if strings.Contains(text, others) {
				t.Errorf("%s tells of %q in\n%s", c.CommandPath(), others, text)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(NewRoot(volumes("/etc/nfsrdma/volumes-exports")))
}

// TestKindCheck: without FILE, check reads the program's own exports file, in which no path is a
// directory.
func TestKindCheck(t *testing.T) {
	k := volumes(filepath.Join(t.TempDir(), "volumes-exports"))
	put(t, k.Exports, "/vol 10.0.0.7(rw)\n")
	if out, err := runKind(t.Context(), k, "check"); err != nil || !strings.Contains(out, "/vol\n  10.0.0.7") || strings.Contains(out, "not served") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := runKind(t.Context(), k, "check", "--client", "10.0.0.7", "/vol"); err != nil || !strings.Contains(out, "reads and writes") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := runKind(t.Context(), k, "check", "--client", "10.0.0.7", k.Exports, "vol"); err == nil || !strings.Contains(err.Error(), "nfsrdmad-volumes check ") {
		t.Errorf("%v", err)
	}
}

// TestKindSocket: the program's commands find its server without flags, even while an nfsrdmad runs
// with its own socket. They print the program's name.
func TestKindSocket(t *testing.T) {
	k := volumes("")
	if _, err := runKind(t.Context(), k, "status"); err == nil || !strings.Contains(err.Error(), "start one with nfsrdmad-volumes serve, ") {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	ports := []string{freePort(t), freePort(t)}
	flags := func(i int) []string {
		return []string{"--tcp-port", ports[i], "--rdma-port", "0", "--rpcbind", "off", "--ephemeral-key", "--log-level", "error"}
	}
	go func() {
		_, err := runKind(ctx, k, append([]string{"serve", "vol"}, flags(0)...)...)
		done <- err
	}()
	go func() {
		_, err := run(ctx, append([]string{"serve", "--memory"}, flags(1)...)...)
		done <- err
	}()
	defer func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("at its end: %v", err)
			}
		}
	}()
	for at, status := range map[string]func() (string, error){
		"nfsrdmad-volumes " + ports[0]: func() (string, error) { return runKind(ctx, k, "status") },
		"nfsrdmad " + ports[1]:         func() (string, error) { return run(ctx, "status") },
	} {
		name, port, _ := strings.Cut(at, " ")
		awaitPort(t, "127.0.0.1:"+port)
		out, err := status()
		for begin := time.Now(); err != nil && time.Since(begin) < time.Minute; out, err = status() {
			time.Sleep(time.Millisecond) // ports are open before the socket exists
		}
		if err != nil || !strings.HasPrefix(out, name+" ") || !strings.Contains(out, ":"+port+" ") {
			t.Errorf("%s, %v", out, err)
		}
	}
}
