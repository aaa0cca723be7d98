// An Auditor receives all changes of names and attributes, also refused ones, and no other calls.

package nfsserver_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// An auditLines is an Auditor that keeps the changes as text.
type auditLines struct {
	mu    sync.Mutex
	lines []string
}

func (r *auditLines) Change(c *nfsserver.Change) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", c.Operation, c.Export, c.Status.String())
	if c.Named {
		fmt.Fprintf(&b, " %d:%d", c.UID, c.GID)
	}
	if c.Acted {
		fmt.Fprintf(&b, " as %d:%d", c.ActsUID, c.ActsGID)
	}
	for _, p := range []nfsserver.Place{c.At, c.To} {
		switch {
		case len(p.FH.Bytes()) == 0:
		case p.Name == nil:
			b.WriteString(" object")
		case p.FH == c.Root && p.Fileid != 0:
			fmt.Fprintf(&b, " root/%q", p.Name)
		default:
			fmt.Fprintf(&b, " dir/%q", p.Name)
		}
	}
	if c.Attr != nil && c.Attr.SetMode {
		fmt.Fprintf(&b, " %o", c.Attr.Mode)
	}
	if c.How != nil {
		fmt.Fprintf(&b, " %v", *c.How)
	}
	if c.Type != 0 {
		fmt.Fprintf(&b, " %v", c.Type)
	}
	if c.Target != nil {
		fmt.Fprintf(&b, " -> %s", c.Target)
	}
	if c.ACLs != nil {
		fmt.Fprintf(&b, " %d entries", len(c.ACLs.Access))
	}
	if c.Time.IsZero() || c.Remote == nil {
		b.WriteString(" without time or client")
	}
	if c.Fileid != 0 {
		b.WriteString(" numbered")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprint(b.String(), " rdma=", c.RDMA))
}

// take returns the changes since the last call.
func (r *auditLines) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// TestAuditorSeesEachChange: the Auditor gets each operation over each transport, with the claimed
// user and the effective one.
func TestAuditorSeesEachChange(t *testing.T) {
	var told auditLines
	h := serve(t, nfsserver.Options{Squash: nfsserver.Squash{TrustLocal: true}, Auditor: &told, Exports: []nfsserver.Export{
		{Name: "/x", FS: memfs.New(memfs.Options{Mode: 0o757})}, {Name: "/ro", FS: memory(t), ReadOnly: true}}})
	for rdma, c := range map[bool]*client{false: h.dial(user).mount("/x"), true: h.dialRDMA(user).mount("/x")} {
		told.take()
		d := c.dir(c.root, "d", 0o755)
		f := c.file(d, "f\xff", 0o640)
		c.create(d, "f\xff", nfs3.Guarded, nfs3.Sattr{}, nfs3.Verf{})
		c.create(d, "x", nfs3.Exclusive, nfs3.Sattr{}, nfs3.Verf{1})
		c.symlink(d, "l", "a\xfeb")
		c.mknod(d, "p", nfs3.TypeFIFO, nfs3.Specdata{})
		c.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o600})
		c.setACL(f, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: entries{{uo, 0, 6}, {us, 7, 4}, {go_, 0, 4}, {ma, 0, 4}, {ot, 0, 0}}.wire()})
		c.link(f, c.root, "hard")
		c.rename(c.root, "hard", d, "moved")
		c.remove(d, "moved")
		c.remove(d, "")
		c.rmdir(c.root, "d")
		c.rename(d, "f\xff", nfs3.FH{}, "g")
		c.getattr(f)
		c.lookup(d, "f\xff")
		c.write(f, 0, "data", nfs3.FileSync)
		c.remove(d, "f\xff")
		c.remove(d, "x")
		c.remove(d, "l")
		c.remove(d, "p")
		c.rmdir(c.root, "d")
		const who = " 1000:1000 as 1000:1000 "
		want := []string{
			"MKDIR /x NFS3_OK" + who + `root/"d" 755 numbered`,
			"CREATE /x NFS3_OK" + who + `dir/"f\xff" 640 GUARDED numbered`,
			"CREATE /x NFS3ERR_EXIST" + who + `dir/"f\xff" GUARDED`,
			"CREATE /x NFS3_OK" + who + `dir/"x" EXCLUSIVE numbered`,
			"SYMLINK /x NFS3_OK" + who + `dir/"l" -> a` + "\xfeb numbered",
			"MKNOD /x NFS3_OK" + who + `dir/"p" 600 NF3FIFO numbered`,
			"SETATTR /x NFS3_OK" + who + "object 600 numbered",
			"SETACL /x NFS3ERR_NOTSUPP" + who + "object 5 entries numbered",
			"LINK /x NFS3_OK" + who + `object root/"hard" numbered`,
			"RENAME /x NFS3_OK" + who + `root/"hard" dir/"moved"`,
			"REMOVE /x NFS3_OK" + who + `dir/"moved"`,
			"REMOVE /x NFS3ERR_ACCES" + who + `dir/""`,
			"RMDIR /x NFS3ERR_NOTEMPTY" + who + `root/"d"`,
			`RENAME /x NFS3ERR_BADHANDLE 1000:1000 dir/"f\xff"`,
			"REMOVE /x NFS3_OK" + who + `dir/"f\xff"`,
			"REMOVE /x NFS3_OK" + who + `dir/"x"`,
			"REMOVE /x NFS3_OK" + who + `dir/"l"`,
			"REMOVE /x NFS3_OK" + who + `dir/"p"`,
			"RMDIR /x NFS3_OK" + who + `root/"d"`,
		}
		for i := range want {
			want[i] += fmt.Sprint(" rdma=", rdma)
		}
		if got := told.take(); !slices.Equal(got, want) {
			t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	told.take()
	c := h.dial(root).mount("/x")
	c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o700})
	c.mkdir(c.root, "of root", 0o700)
	h.dial(transport.Cred{}).mkdir(c.root, "of nobody", 0o700)
	c.mount("/ro").mkdir(c.root, "d", 0o700)
	got, want := told.take(), []string{`SETATTR /x NFS3ERR_PERM 0:0 as 65534:65534 object 700 numbered rdma=false`,
		`MKDIR /x NFS3_OK 0:0 as 65534:65534 root/"of root" 700 numbered rdma=false`,
		`MKDIR /x NFS3_OK as 65534:65534 root/"of nobody" 700 numbered rdma=false`, `MKDIR /ro NFS3ERR_ROFS 0:0 as 65534:65534 root/"d" 700 rdma=false`}
	if !slices.Equal(got, want) {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAuditorSeesStrangers: calls with forged handles, and calls by clients that an export does not
// admit, are reported without an effective user.
func TestAuditorSeesStrangers(t *testing.T) {
	var told auditLines
	h := serve(t, nfsserver.Options{Squash: remote, Auditor: &told, Exports: ruled(t, "/x 10.0.0.1\n/y *\n")})
	c := h.dial(user)
	c.want("REMOVE", c.remove(h.srv.RootHandle("/x"), "f").Status, nfs3.ErrAcces)
	c.want("REMOVE", c.remove(nfs3.FH{}, "f").Status, nfs3.ErrBadHandle)
	want := []string{`REMOVE /x NFS3ERR_ACCES 1000:1000 dir/"f" rdma=false`, `REMOVE  NFS3ERR_BADHANDLE 1000:1000 rdma=false`}
	if got := told.take(); !slices.Equal(got, want) {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A silent is an Auditor that does nothing.
type silent struct{}

func (silent) Change(*nfsserver.Change) {}

// TestAuditorAllocatesNothing: a refused SETATTR allocates no more with an Auditor than without.
func TestAuditorAllocatesNothing(t *testing.T) {
	var n [2]float64
	for i, a := range []nfsserver.Auditor{nil, silent{}} {
		h := serve(t, nfsserver.Options{Squash: believeAll, Auditor: a, Exports: []nfsserver.Export{{Name: "/x", FS: memory(t)}}})
		e := xdr.NewEncoder(nil)
		(&nfs3.SetattrArgs{FH: h.srv.RootHandle("/x"), Attr: nfs3.Sattr{SetMode: true, Mode: 0o755}, Guard: true}).EncodeXDR(e)
		call := transport.Call{Cred: root, Remote: h.svc.TCPAddr, Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
		proc, buf := &h.srv.Programs()[0].Procs[nfs3.ProcSetattr], make([]byte, 0, 512)
		n[i] = testing.AllocsPerRun(100, func() {
			call.Args.Reset(e.Bytes(), nil)
			call.Res.Reset(buf)
			if err := proc.Run(&call); err != nil {
				t.Fatalf("Run: %v", err)
			}
		})
	}
	if n[0] != n[1] {
		t.Errorf("%v allocations without, %v with an Auditor", n[0], n[1])
	}
}
