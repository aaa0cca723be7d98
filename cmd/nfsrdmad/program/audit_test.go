// serve --audit: the records of clients' changes over both transports, and the replacement of the
// file.

package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// An auditRecord has the fields of a record that tests check.
type auditRecord struct {
	Client, Transport, Op, Export, Path, Name, Dir, Result string

	UID, Size *uint64
	As        *uint64 `json:"as_uid"`
	ToName    string  `json:"to_name"`
	Records   int
}

func (r *auditRecord) String() string {
	return fmt.Sprintf("%s %s %s%s %s", r.Transport, r.Op, r.Path, r.ToName, r.Result)
}

// readAudit reads a file of records.
func readAudit(t *testing.T, name string) (list []auditRecord) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range bytes.Lines(b) {
		var r auditRecord
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// changeAll requests a change of each kind below the root of an export.
func changeAll(t *testing.T, c *nfsclient.Client) {
	t.Helper()
	ctx := context.Background()
	m, err := c.Mount(ctx, "/memory")
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	for what, err := range map[string]error{
		"mkdir": m.Mkdir(ctx, "d", 0o755), "write": m.WriteFile(ctx, "f\xff", nil, 0o644), "symlink": m.Symlink(ctx, "d", "l"),
		"mknod": m.Mknod(ctx, "p", fs.ModeNamedPipe|0o600, 0, 0),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, step := range []error{m.SetAttr(ctx, "f\xff", nfs3.Sattr{SetSize: true, Size: 5}, false), m.Link(ctx, "f\xff", "h"), m.Rename(ctx, "h", "g"), m.Unlink(ctx, "g"),
		m.Unlink(ctx, "f\xff"), m.Unlink(ctx, "l"), m.Unlink(ctx, "p"), m.Remove(ctx, "d")} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if err := m.Rename(ctx, "nothing", "x"); err == nil {
		t.Error("nothing was renamed")
	}
}

// TestServeAudit: all changes over TCP and RDMA are recorded. Reload and SIGHUP reopen the file,
// even without an exports file.
func TestServeAudit(t *testing.T) {
	dir := t.TempDir()
	file, socket, tcp, rdma := filepath.Join(dir, "audit"), filepath.Join(dir, "control"), freePort(t), freePort(t)
	t.Run("serve", func(t *testing.T) {
		serveUntilEnd(t, "--memory", "--audit", file, "--trust-local", "--control", socket, "--tcp-port", tcp, "--rdma", "iwarp", "--rdma-port", rdma, "--locks", "off")
		c := dialServe(t, "127.0.0.1:"+tcp)
		awaitControl(t, socket)
		changeAll(t, c)
		must.Succeed(t, os.Rename(file, file+".1"))
		if out, err := run(context.Background(), "reload", "--control", socket); err != nil || out != file+": opened again\n" {
			t.Errorf("reload: %q, %v", out, err)
		}
		over, err := nfsclient.Dial(context.Background(), "127.0.0.1:"+rdma, nfsclient.Options{})
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		defer over.Close()
		changeAll(t, over)
		must.Succeed(t, os.Rename(file, file+".2"))
		must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(file); err == nil {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal("SIGHUP has no effect")
			}
		}
		must.Succeed(t, os.Rename(file, file+".3"))
		must.Succeed(t, os.Symlink(file+".3", file))
		if _, err := run(context.Background(), "reload", "--control", socket); err == nil || !strings.Contains(err.Error(), "symbolic link") || strings.Contains(err.Error(), "\n") {
			t.Errorf("reload over a symbolic link: %v", err)
		}
	})
	for i, via := range []string{"tcp", "rdma"} {
		var got []string
		for _, r := range readAudit(t, fmt.Sprint(file, ".", i+1)) {
			if r.Client != "127.0.0.1" || r.Export != "/memory" || r.Transport != via {
				t.Errorf("%s by %s at %s, want 127.0.0.1 by %s at /memory", r.Client, r.Transport, r.Export, via)
			}
			if r.UID == nil || r.As == nil {
				t.Errorf("%+v, want a user, and the user it counts as", r)
			}
			if got = append(got, r.Op+" "+r.Name+" "+r.ToName+" "+r.Result); r.Op == "SETATTR" && (r.Size == nil || *r.Size != 5) {
				t.Errorf("SETATTR of %+v", r)
			}
		}
		for _, want := range []string{"MKDIR d  NFS3_OK", `CREATE f\xff  NFS3_OK`, "SYMLINK l  NFS3_OK", "MKNOD p  NFS3_OK", "SETATTR   NFS3_OK", "LINK  h NFS3_OK",
			"RENAME h g NFS3_OK", "REMOVE g  NFS3_OK", `REMOVE f\xff  NFS3_OK`, "RMDIR d  NFS3_OK", "RENAME nothing x NFS3ERR_NOENT"} {
			if !slices.Contains(got, want) {
				t.Errorf("over %s there is no record %q in %q", via, want, got)
			}
		}
	}
}

// TestServeAuditRefused: an unusable file gives a one-line error before anything is served.
func TestServeAuditRefused(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	must.Succeed(t, os.Symlink("target", link))
	for name, want := range map[string]string{link: "symbolic link", filepath.Join(dir, "not", "there"): "make its directory first", "/dev/full": "not a regular file"} {
		_, err := run(context.Background(), "serve", "--memory", "--audit", name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in one line", name, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("the link was followed")
	}
}

// TestServeAuditFullDisk: a full disk delays no call, and with space again all records are written.
func TestServeAuditFullDisk(t *testing.T) {
	dir := t.TempDir()
	small := filepath.Join(dir, "small")
	must.Succeed(t, os.Mkdir(small, 0o700))
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		machine.Skip(t, "a tmpfs cannot be mounted: "+err.Error())
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	file, filler, tcp := filepath.Join(small, "audit"), filepath.Join(small, "filler"), freePort(t)
	const n = 100
	t.Run("serve", func(t *testing.T) {
		serveUntilEnd(t, "--memory", "--audit", file, "--control", filepath.Join(dir, "control"), "--tcp-port", tcp, "--locks", "off")
		m, err := dialServe(t, "127.0.0.1:"+tcp).Mount(context.Background(), "/memory")
		if err != nil {
			t.Fatalf("Mount: %v", err)
		}
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
		for i := range n {
			if err := m.Mkdir(context.Background(), fmt.Sprint(i), 0o700); err != nil {
				t.Fatalf("Mkdir: %v", err)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Size() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		must.Succeed(t, os.Truncate(filler, 0))
	})
	records := readAudit(t, file)
	for i := range records {
		if records[i].Name != fmt.Sprint(i) {
			t.Errorf("record %d is of %q", i, records[i].Name)
		}
	}
	if len(records) != n {
		t.Errorf("%d records of %d", len(records), n)
	}
}
