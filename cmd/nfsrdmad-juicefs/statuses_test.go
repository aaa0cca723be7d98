// The statuses of calls over RDMA while a service of the volume is unreachable, slow or full, or
// refuses requests (RFC 1813 §2.6).

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A handleClient calls one server, and names files by their handles.
type handleClient struct {
	*nfsclient.Client
	t    *testing.T
	root nfs3.FH
}

// dialRDMA connects over RDMA. Calls wait for as long as the server takes.
func dialRDMA(t *testing.T, p *process) *handleClient {
	t.Helper()
	return dialWith(t, "127.0.0.1:"+p.rdma, nfsclient.Options{})
}

// dialFrom connects from another address of this machine, so the server sees another client.
func dialFrom(t *testing.T, addr string, p *process) *handleClient {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	return dialWith(t, p.addr(), nfsclient.Options{Transport: nfsclient.TCP, Dial: from.DialContext})
}

func dialWith(t *testing.T, addr string, o nfsclient.Options) *handleClient {
	t.Helper()
	o.CallTimeout = transport.Hard
	c, err := nfsclient.Dial(t.Context(), addr, o)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	root, err := c.MountHandle(t.Context(), "/vol")
	if err != nil {
		t.Fatalf("MountHandle: %v", err)
	}
	return &handleClient{c, t, root}
}

// create makes a file.
func (c *handleClient) create(name string) nfs3.FH {
	c.t.Helper()
	made, err := c.Create(c.t.Context(), c.root, name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o600}, nfs3.Verf{})
	if err != nil {
		c.t.Fatalf("CREATE %s: %v", name, err)
	}
	return made.FH
}

// put writes bytes at the start of a file, and returns the write verifier.
func (c *handleClient) put(fh nfs3.FH, p []byte) nfs3.Verf {
	c.t.Helper()
	w, err := c.Write(c.t.Context(), fh, p, 0, nfs3.Unstable)
	if err != nil || w.N != len(p) {
		c.t.Fatalf("WRITE: %d bytes, %v", w.N, err)
	}
	return w.Verf
}

// store writes bytes at the start of a file, and commits them.
func (c *handleClient) store(fh nfs3.FH, p []byte) {
	c.t.Helper()
	wrote := c.put(fh, p)
	if is, err := c.Commit(c.t.Context(), fh, 0, 0); err != nil || is != wrote {
		c.t.Fatalf("COMMIT: %x, %v, want %x", is, err, wrote)
	}
}

// has checks a file's content.
func (c *handleClient) has(fh nfs3.FH, want []byte) {
	c.t.Helper()
	got := make([]byte, len(want)+1)
	n, _, err := c.Read(c.t.Context(), fh, got, 0)
	if err != nil || !bytes.Equal(got[:n], want) {
		c.t.Errorf("READ: %d bytes, %.16q, %v, want %.16q", n, got[:n], err, want)
	}
}

// names creates a file, looks it up, renames, lists and removes it.
func (c *handleClient) names(name string) {
	c.t.Helper()
	ctx := c.t.Context()
	fh := c.create(name)
	err := c.Rename(ctx, c.root, name, c.root, name+"~")
	if err == nil {
		_, err = c.Lookup(ctx, c.root, name+"~")
	}
	if err == nil {
		_, err = c.Getattr(ctx, fh)
	}
	if err == nil {
		_, err = c.Readdirplus(ctx, c.root, nfsclient.DirPage{}, 4096, 8192, func(*nfs3.EntryPlus) {})
	}
	if err = errors.Join(err, c.Remove(ctx, c.root, name+"~")); err != nil {
		c.t.Errorf("names: %v", err)
	}
}

// statusOf returns the status in a call's error, or OK if err is nil.
func statusOf(t *testing.T, err error) nfs3.Status {
	t.Helper()
	var refused *nfsclient.StatusError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("no answer of the server: %v", err)
	}
	if err == nil {
		return nfs3.OK
	}
	return refused.Status
}

// A commitment is a file, with its content, for which a COMMIT is in progress.
type commitment struct {
	fh      nfs3.FH
	content []byte
}

// commitAll starts a COMMIT for each of n files that by has written. The COMMITs run concurrently,
// and each must succeed; ended counts those that have.
func (c *handleClient) commitAll(prefix string, by *handleClient, n int, ended *atomic.Int64, wg *sync.WaitGroup) (all []commitment) {
	c.t.Helper()
	var verfs []nfs3.Verf
	for i := range n {
		k := commitment{by.create(fmt.Sprint(prefix, i)), fmt.Appendf(nil, "content %d of %s", i, prefix)}
		all, verfs = append(all, k), append(verfs, by.put(k.fh, k.content))
	}
	for i, k := range all {
		wg.Go(func() {
			is, err := c.Commit(c.t.Context(), k.fh, 0, 0)
			ended.Add(1)
			if err != nil || is != verfs[i] {
				c.t.Errorf("COMMIT of %s%d: %x, %v, want %x", prefix, i, is, err, verfs[i])
			}
		})
	}
	return all
}

// TestCallsWhileObjectStorageHangs: COMMITs wait for an object storage that accepts connections and
// does not respond. Other calls do not wait, on the same connection, on another, or at another
// server. If the COMMITs occupy all workers that a client can have, its other calls get
// NFS3ERR_JUKEBOX, and other clients' calls do not. When the storage responds all COMMITs succeed,
// and their data is visible at the other server.
func TestCallsWhileObjectStorageHangs(t *testing.T) {
	t.Parallel()
	const uploads = 20 // the default of --max-uploads
	c := newServers(t)
	a, other, elsewhere := dialRDMA(t, c.servers[0]), dialRDMA(t, c.servers[0]), dialRDMA(t, c.servers[1])
	stranger := dialFrom(t, "127.0.0.2", c.servers[0])
	cached := a.create("cached")
	a.store(cached, []byte("content"))
	a.has(cached, []byte("content"))

	release := make(chan struct{})
	hung, slow := new(atomic.Int64), juicefstest.Slow(http.MethodPut, release)
	c.s3.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			hung.Add(1)
		}
		return slow(w, r)
	})
	var wg sync.WaitGroup
	ended := new(atomic.Int64)
	all := a.commitAll("few-", a, 40, ended, &wg)
	await(t, "as many uploads as there may be", func() bool { return hung.Load() >= uploads })
	probe := func(round string, clients ...*handleClient) {
		for i, client := range clients {
			name := fmt.Sprint(round, i)
			client.names("other-" + name)
			client.put(client.create("written-"+name), []byte("not committed"))
			client.has(cached, []byte("content"))
		}
	}
	for i := range 5 {
		probe(fmt.Sprint("beside-", i, "-"), a, other, stranger)
		elsewhere.names(fmt.Sprint("elsewhere-", i))
	}
	// stranger has written these files, so the delayed client is not their writer.
	all = append(all, other.commitAll("many-", stranger, 100, ended, &wg)...)
	var attr nfs3.GetattrRes
	await(t, "calls that are put off", func() bool {
		return other.isPutOff(nfs3.ProcGetattr, &nfs3.FHArgs{FH: cached}, &attr, &attr.Status)
	})
	probe("crowded-", stranger)
	if n := ended.Load(); n > 0 {
		t.Errorf("%d COMMITs have ended while nothing was stored", n)
	}
	close(release)
	c.s3.Mend()
	wg.Wait()
	for _, k := range all {
		elsewhere.has(k.fh, k.content)
	}
}

// TestFullBuffersWhileObjectStorageHangs: WRITEs wait when the server has no more buffers for data
// that it cannot upload, and names work. No accepted data is missing at the end.
func TestFullBuffersWhileObjectStorageHangs(t *testing.T) {
	t.Parallel()
	// --buffer-size; JuiceFS uses twice as much
	const buffer, total, most = 32 << 20, 128 << 20, 1 << 20
	c := newServers(t, "--buffer-size", "32M")
	a, other := dialRDMA(t, c.servers[0]), dialRDMA(t, c.servers[0])
	fh := a.create("file")
	block := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%015d\n", i), most/16) }
	release := make(chan struct{})
	c.s3.Break(juicefstest.Slow(http.MethodPut, release))
	taken, done := new(atomic.Int64), make(chan error, 1)
	go func() {
		for i := range total / most {
			if w, err := a.Write(t.Context(), fh, block(i), uint64(i)*most, nfs3.Unstable); err != nil || w.N != most {
				done <- fmt.Errorf("WRITE %d: %d bytes, %w", i, w.N, err)
				return
			}
			taken.Add(most)
		}
		done <- nil
	}()
	await(t, "what there is room for", func() bool { return taken.Load() >= buffer })
	i := 0
	await(t, "no more is taken while names are made", func() bool {
		before := taken.Load()
		for range 20 {
			other.names(fmt.Sprint("other-", i))
			i++
		}
		return taken.Load() == before
	})
	if n := taken.Load(); n == total {
		t.Errorf("all %d bytes have been taken, of which nothing is stored, for %d there is room", n, 2*buffer)
	}
	close(release)
	c.s3.Mend()
	if err := <-done; err != nil {
		t.Fatalf("at its end: %v", err)
	}
	if _, err := a.Commit(t.Context(), fh, 0, 0); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	b := dialRDMA(t, c.servers[1])
	got := make([]byte, most)
	for i := range total / most {
		if n, _, err := b.Read(t.Context(), fh, got, uint64(i)*most); err != nil || n != most || !bytes.Equal(got, block(i)) {
			t.Fatalf("block %d at the other server: %d bytes, %.15q, %v", i, n, got, err)
		}
	}
}

// TestStatusesOfObjectStorage: COMMIT and a stable WRITE return an error status if the object
// storage refuses the data. READ returns one if the storage refuses, or has lost an object. Such a
// COMMIT changes the verifier, so the client writes the data again; then it is stored.
func TestStatusesOfObjectStorage(t *testing.T) {
	t.Parallel()
	c := newServers(t, "--io-retries", "1")
	a, b := dialRDMA(t, c.servers[0]), dialRDMA(t, c.servers[1])
	for _, refusal := range []struct {
		status int
		code   string
		want   nfs3.Status
	}{
		{http.StatusInternalServerError, "InternalError", nfs3.ErrIO},
		{http.StatusForbidden, "AccessDenied", nfs3.ErrIO},
		{http.StatusInsufficientStorage, "XMinioStorageFull", nfs3.ErrNoSpc},
	} {
		t.Run(refusal.code, func(t *testing.T) {
			fh, stable := a.create(refusal.code), a.create(refusal.code+"-stable")
			content := []byte(refusal.code)
			c.s3.Break(juicefstest.Answer(http.MethodPut, refusal.status, refusal.code))
			wrote := a.put(fh, content)
			if _, err := a.Commit(t.Context(), fh, 0, 0); statusOf(t, err) != refusal.want {
				t.Errorf("COMMIT: %v, want %v", err, refusal.want)
			}
			if _, err := a.Write(t.Context(), stable, content, 0, nfs3.FileSync); statusOf(t, err) != refusal.want {
				t.Errorf("WRITE of FILE_SYNC: %v, want %v", err, refusal.want)
			}
			a.names(refusal.code + "-other")
			c.s3.Mend()
			if is, err := a.Commit(t.Context(), fh, 0, 0); err != nil || is == wrote {
				t.Errorf("COMMIT of what was lost: %x, %v; WRITE had said %x", is, err, wrote)
			}
			a.store(fh, content)
			b.has(fh, content)
			if _, err := a.Write(t.Context(), stable, content, 0, nfs3.FileSync); err != nil {
				t.Errorf("WRITE of FILE_SYNC, then: %v", err)
			}
			b.has(stable, content)
		})
	}
	for _, refusal := range []struct {
		status int
		code   string
	}{{http.StatusInternalServerError, "InternalError"}, {http.StatusForbidden, "AccessDenied"}, {http.StatusNotFound, "NoSuchKey"}} {
		t.Run("READ-"+refusal.code, func(t *testing.T) {
			fh := a.create("read-" + refusal.code)
			a.store(fh, []byte("content"))
			c.s3.Break(juicefstest.Answer(http.MethodGet, refusal.status, refusal.code))
			if n, _, err := b.Read(t.Context(), fh, make([]byte, 10), 0); statusOf(t, err) != nfs3.ErrIO {
				t.Errorf("READ: %d bytes, %v, want %v", n, err, nfs3.ErrIO)
			}
			b.names("other-" + refusal.code)
			c.s3.Mend()
			b.has(fh, []byte("content"))
		})
	}
}

// A jukebox decodes results of which only the status is needed. It ends the call at the first
// NFS3ERR_JUKEBOX, after which a client would retry.
type jukebox struct {
	xdr.Unmarshaler
	status *nfs3.Status
	end    context.CancelFunc
	seen   bool
}

func (j *jukebox) DecodeXDR(d *xdr.Decoder) {
	j.Unmarshaler.DecodeXDR(d)
	if *j.status == nfs3.ErrJukebox {
		j.seen = true
		j.end()
	}
}

// isPutOff reports whether a call is answered NFS3ERR_JUKEBOX.
func (c *handleClient) isPutOff(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status) bool {
	ctx, end := context.WithCancel(c.t.Context())
	defer end()
	j := &jukebox{res, status, end, false}
	err := c.Do(ctx, proc, args, j, status, nil, 0)
	return err != nil && j.seen
}

// putOff fails the test unless a call is answered NFS3ERR_JUKEBOX.
func (c *handleClient) putOff(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status) {
	c.t.Helper()
	if !c.isPutOff(proc, args, res, status) {
		c.t.Errorf("%s: %v, want %v", nfs3.Bindings[proc].Name, *status, nfs3.ErrJukebox)
	}
}

// TestStatusesOfAbsentObjectStorage: stores and reads fail with NFS3ERR_JUKEBOX while the object
// storage does not respond. A COMMIT with that status changes the verifier.
func TestStatusesOfAbsentObjectStorage(t *testing.T) {
	t.Parallel()
	c := newServers(t, "--io-retries", "1")
	a, b := dialRDMA(t, c.servers[0]), dialRDMA(t, c.servers[1])
	fh, late := a.create("file"), a.create("late")
	a.store(fh, []byte("content"))
	c.s3.Break(juicefstest.Away)
	wrote := a.put(late, []byte("unsent"))
	var committed nfs3.CommitRes
	a.putOff(nfs3.ProcCommit, &nfs3.CommitArgs{FH: late}, &committed, &committed.Status)
	var read nfs3.ReadRes
	b.putOff(nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 10}, &read, &read.Status)
	c.s3.Mend()
	if is, err := a.Commit(t.Context(), late, 0, 0); err != nil || is == wrote {
		t.Errorf("COMMIT of what was lost: %x, %v; WRITE had said %x", is, err, wrote)
	}
	a.store(late, []byte("sent!!"))
	b.has(late, []byte("sent!!"))
	b.has(fh, []byte("content"))
}

// TestStatusesWithoutMetadata: while the metadata service is unreachable, calls get
// NFS3ERR_JUKEBOX, so clients retry and none fails permanently. When the service is back,
// acknowledged data is present, and uncommitted data was not acknowledged.
func TestStatusesWithoutMetadata(t *testing.T) {
	t.Parallel()
	c := newServers(t, "--io-retries", "2")
	a := dialRDMA(t, c.servers[0])
	fh, late := a.create("file"), a.create("late")
	a.store(fh, []byte("content"))
	a.store(late, []byte("before"))
	wrote := a.put(late, []byte("unsent"))
	c.meta.Kill()
	var attr nfs3.GetattrRes
	a.putOff(nfs3.ProcGetattr, &nfs3.FHArgs{FH: fh}, &attr, &attr.Status)
	var found nfs3.LookupRes
	a.putOff(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: a.root, Name: []byte("file")}, &found, &found.Status)
	var made nfs3.CreateRes
	a.putOff(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: a.root, Name: []byte("dir")}}, &made, &made.Status)
	var removed nfs3.WccRes
	a.putOff(nfs3.ProcRemove, &nfs3.DirOpArgs{Dir: a.root, Name: []byte("file")}, &removed, &removed.Status)
	var committed nfs3.CommitRes
	a.putOff(nfs3.ProcCommit, &nfs3.CommitArgs{FH: late}, &committed, &committed.Status)
	c.meta.Start()
	a.has(fh, []byte("content"))
	if is, err := a.Commit(t.Context(), late, 0, 0); err != nil {
		t.Errorf("COMMIT: %v", err)
	} else if is == wrote {
		a.has(late, []byte("unsent"))
	}
	a.store(late, []byte("sent!!"))
	b := dialRDMA(t, c.servers[1])
	b.has(fh, []byte("content"))
	b.has(late, []byte("sent!!"))
}
