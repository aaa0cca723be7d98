// The cost group: the cost of exports rules, ACLs and locks for the most frequent calls.

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// costVariants have a separate server and directory each. "plain" has no rules, ACLs and locks, and
// "again" is the same: their difference is the noise of the measurement.
var costVariants = []string{"plain", "again", "rules", "acls", "locks"}

const (
	costRules   = 100 // in the exports file; our rule is the last
	costEntries = 20  // named users in each ACL
	costLocks   = 1000
	costFile    = 16 << 20
	costBlock   = 4 << 10
	costDepth   = 8
	costUser    = 1000 // the calling user when run by root, because ACLs do not apply to root
	// slices per round; each slice is a sample, so that one disturbed slice does not count
	costSlices = 10
)

// costRow compares a variant with the plain server.
func costRow(call, op, title, variant string, bar float64) row {
	return row{call + ", depth 8, RDMA, " + title, calls, "cost/" + op + "/" + variant, "cost/" + op + "/plain", "without", bar, false}
}

// costRows are the rows of each call.
var costRows = func() (rows []row) {
	for _, c := range [][2]string{{"GETATTR", "getattr"}, {"LOOKUP", "lookup"}, {"READ 4 KiB", "read"}, {"WRITE 4 KiB", "write"}} {
		rows = append(rows,
			costRow(c[0], c[1], "a second server, as the first", "again", 0),
			costRow(c[0], c[1], strconv.Itoa(costRules)+" rules in the exports file", "rules", 0.97),
			costRow(c[0], c[1], "ACLs served and set", "acls", 0.97),
			costRow(c[0], c[1], "1,000 locks held in the file", "locks", 0.97))
	}
	return rows
}()

func (b *bed) measureCost(ctx context.Context) error {
	args := []string{"_cost", strconv.Itoa(b.config.rounds), b.config.duration.String()}
	for _, v := range costVariants {
		s, release, err := b.costServer(ctx, v)
		if err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
		defer release()
		args = append(args, s.url("nfsrdma", "dir/file"))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := output(exec.CommandContext(ctx, self, args...))
	if err != nil {
		return err
	}
	return b.samples.addCost(out)
}

// addCost adds the rates written by _cost.
func (s samples) addCost(out []byte) error {
	var r map[string][][]float64
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	for op, rounds := range r {
		for _, rates := range rounds {
			if len(rates) != len(costVariants) {
				return fmt.Errorf("_cost wrote %s", out)
			}
			for i, v := range rates {
				s.add("cost/"+op+"/"+costVariants[i], v)
			}
		}
	}
	return nil
}

// costServer starts a variant's server; release frees its locks.
func (b *bed) costServer(ctx context.Context, variant string) (s *server, release func(), err error) {
	dir := filepath.Join(b.base, "cost-"+variant)
	if err := os.MkdirAll(filepath.Join(dir, "dir"), 0o777); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "dir", "file")
	if err := os.WriteFile(file, make([]byte, costFile), 0o666); err != nil {
		return nil, nil, err
	}
	for _, p := range []string{dir, filepath.Dir(file)} { // independent of the umask
		if err := os.Chmod(p, 0o777); err != nil {
			return nil, nil, err
		}
	}
	if err := os.Chmod(file, 0o666); err != nil {
		return nil, nil, err
	}
	acl, release := "off", func() {}
	switch variant {
	case "rules":
		if err := os.WriteFile(dir+".exports", []byte(exportsOf(dir, costRules)), 0o644); err != nil {
			return nil, nil, err
		}
		s, err = b.serveArgs("state-"+variant, "--acl", acl, "--exports", dir+".exports")
		if err == nil {
			s.export = dir
		}
		return s, release, err
	case "acls":
		acl = "on"
	}
	if s, err = b.serveArgs("state-"+variant, "--acl", acl, dir+"=/bench"); err != nil {
		return nil, nil, err
	}
	switch variant {
	case "acls":
		err = setCostACLs(ctx, s)
	case "locks":
		release, err = holdLocks(ctx, s, "bench", costLocks)
	}
	return s, release, err
}

// exportsOf returns an exports file with n rules, half of them for other directories. The last rule
// gives us access to dir.
func exportsOf(dir string, n int) string {
	var b strings.Builder
	for i := range n / 2 {
		fmt.Fprintf(&b, "%s/dir 192.0.2.%d(rw,insecure)\n", dir, i)
	}
	b.WriteString(dir)
	for i := range n - n/2 - 1 {
		if i%2 == 0 {
			fmt.Fprintf(&b, " 198.51.100.%d(ro)", i)
		} else {
			fmt.Fprintf(&b, " 10.%d.0.0/16(rw,all_squash)", i)
		}
	}
	b.WriteString(" 127.0.0.0/8(rw,insecure,no_root_squash)\n")
	return b.String()
}

// costTarget opens a variant's file.
func costTarget(ctx context.Context, url string, cred *transport.Cred) (*nfsclient.FS, string, error) {
	t, err := nfsclient.ParseTarget(url)
	if err != nil {
		return nil, "", err
	}
	return nfsclient.Open(ctx, t, nfsclient.Options{Transport: t.Transport, Cred: cred})
}

// setCostACLs sets ACLs without which costUser could not use the directory and the file.
func setCostACLs(ctx context.Context, s *server) error {
	fsys, rest, err := costTarget(ctx, s.url("nfsrdma", "dir/file"), nil)
	if err != nil {
		return err
	}
	defer fsys.Client().Close()
	acl := posixacl.ACL{{Tag: posixacl.UserObj, Perm: 7, ID: posixacl.NoID}}
	for i := range costEntries {
		acl = append(acl, posixacl.Entry{Tag: posixacl.User, ID: uint32(costUser + i), Perm: 7})
	}
	acl = append(acl, posixacl.Entry{Tag: posixacl.GroupObj, ID: posixacl.NoID}, posixacl.Entry{Tag: posixacl.Mask, Perm: 7, ID: posixacl.NoID},
		posixacl.Entry{Tag: posixacl.Other, ID: posixacl.NoID})
	for _, name := range []string{rest, filepath.Dir(rest)} {
		if err := fsys.SetACLs(ctx, name, nfsclient.ACLs{Access: acl}); err != nil {
			return err
		}
	}
	return nil
}

// lockResult is a LOCK reply.
type lockResult struct{ nlm4.Res }

func (r *lockResult) DecodeXDR(d *xdr.Decoder) {
	r.Res.DecodeXDR(d)
	r.Cookie = nil // points into the message
}

// holdLocks takes n one-block locks on the file for a host, each with a different owner.
func holdLocks(ctx context.Context, s *server, caller string, n int) (release func(), err error) {
	fsys, rest, err := costTarget(ctx, s.url("nfsrdma", "dir/file"), nil)
	if err != nil {
		return nil, err
	}
	release = func() { fsys.Client().Close() }
	info, err := fsys.Stat(ctx, rest)
	if err != nil {
		release()
		return nil, err
	}
	for i := range n {
		l := nlm4.Lock{Caller: []byte(caller), FH: info.FH.Bytes(), Owner: fmt.Appendf(nil, "owner-%d", i), Svid: int32(i + 1),
			Offset: uint64(i) * costBlock, Length: costBlock}
		args := nlm4.LockArgs{Cookie: binary.BigEndian.AppendUint64(nil, uint64(i)), Exclusive: true, Lock: l}
		var res lockResult
		if err := fsys.Client().CallLockManager(ctx, nlm4.ProcLock, &args, &res); err != nil || res.Status != nlm4.Granted {
			release()
			return nil, fmt.Errorf("lock %d: %v, %w", i, res.Status, err)
		}
	}
	return release, nil
}

// A costEnd has the handles of one variant.
type costEnd struct {
	c         *nfsclient.Client
	dir, file nfs3.FH
	name      string
}

func openCost(ctx context.Context, url string) (*costEnd, error) {
	var cred *transport.Cred
	if os.Geteuid() == 0 {
		cred = &transport.Cred{Flavor: oncrpc.FlavorSys, Machine: "bench", UID: costUser, GID: costUser}
	}
	fsys, rest, err := costTarget(ctx, url, cred)
	if err != nil {
		return nil, err
	}
	e := &costEnd{c: fsys.Client(), name: filepath.Base(rest)}
	dir, err := fsys.Stat(ctx, filepath.Dir(rest))
	if err != nil {
		return nil, err
	}
	file, err := fsys.Stat(ctx, rest)
	if err != nil {
		return nil, err
	}
	e.dir, e.file = dir.FH, file.FH
	return e, nil
}

// costOps are the calls, by name; n is the call's number.
var costOps = map[string]func(ctx context.Context, e *costEnd, p []byte, n uint64) error{
	"getattr": func(ctx context.Context, e *costEnd, _ []byte, _ uint64) error {
		_, err := e.c.Getattr(ctx, e.file)
		return err
	},
	"lookup": func(ctx context.Context, e *costEnd, _ []byte, _ uint64) error {
		_, err := e.c.Lookup(ctx, e.dir, e.name)
		return err
	},
	"read": func(ctx context.Context, e *costEnd, p []byte, n uint64) error {
		_, _, err := e.c.Read(ctx, e.file, p, n*costBlock%costFile)
		return err
	},
	"write": func(ctx context.Context, e *costEnd, p []byte, n uint64) error {
		_, err := e.c.Write(ctx, e.file, p, n*costBlock%costFile, nfs3.Unstable)
		return err
	},
}

// during makes calls for d, costDepth at a time, and returns their rate per second.
func (e *costEnd) during(d time.Duration, op func(context.Context, *costEnd, []byte, uint64) error) (rate float64, err error) {
	var n atomic.Uint64
	var wg sync.WaitGroup
	failed := make([]error, costDepth)
	start := time.Now()
	for i := range costDepth {
		wg.Go(func() {
			p := make([]byte, costBlock)
			for again := true; again && failed[i] == nil; again = time.Since(start) < d {
				failed[i] = op(context.Background(), e, p, n.Add(1))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	for _, err := range failed {
		if err != nil {
			return 0, err
		}
	}
	return float64(n.Load()) / took.Seconds(), nil
}

// writeCost runs cost for the command _cost and writes the result.
func writeCost(rounds int, duration string, urls []string, out io.Writer) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	r, err := cost(rounds, d, urls)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// cost measures all calls of all variants; urls name their files. The result maps a call's name to
// its slices. Each slice has each variant's rate per second. The variants' slices alternate in
// random order, so that a slower machine affects all variants.
func cost(rounds int, d time.Duration, urls []string) (map[string][][]float64, error) {
	ends := make([]*costEnd, len(urls))
	for i, url := range urls {
		var err error
		if ends[i], err = openCost(context.Background(), url); err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		defer ends[i].c.Close()
	}
	r := map[string][][]float64{}
	for round := range rounds {
		for name, op := range costOps {
			for k := range costSlices {
				rates := make([]float64, len(ends))
				for i := range ends {
					v := (i + k + round) % len(ends)
					rate, err := ends[v].during(d/costSlices, op)
					if err != nil {
						return nil, fmt.Errorf("%s: %s: %w", urls[v], name, err)
					}
					rates[v] = rate
				}
				r[name] = append(r[name], rates)
			}
		}
	}
	return r, nil
}
