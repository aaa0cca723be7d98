// The worker that asks a server about behaviour that the protocol leaves open: the same questions
// for all servers.

package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A sides is one server that is asked. Its exports are those of sidesTree and sidesRules.
type sides struct {
	ctx  context.Context
	c    *nfsclient.Client // as root
	base string            // above all exports
	home string            // where the worker and the test report their progress to each other

	grace bool // no lock has been requested outside the grace period
}

// sidesWorker asks all questions, and prints an answer a line. Arguments: address of NFS, port of
// MOUNT, base, home.
func sidesWorker(args []string) error {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), workerLimit)
	defer cancel()
	cred := &transport.Cred{Flavor: oncrpc.FlavorSys, Machine: "sides"}
	c, err := nfsclient.Dial(ctx, args[0], nfsclient.Options{Transport: nfsclient.TCP, MountPort: port, Cred: cred})
	if err != nil {
		return err
	}
	defer c.Close()
	s := &sides{ctx: ctx, c: c, base: args[2], home: args[3], grace: true}
	for _, q := range sidesQuestions {
		fmt.Printf("%s: %s\n", q.name, q.ask(s))
	}
	return nil
}

// as returns the server as another user sees it.
func (s *sides) as(uid uint32) *nfsclient.Client {
	return s.c.As(transport.Cred{Flavor: oncrpc.FlavorSys, Machine: "sides", UID: uid, GID: uid})
}

// verdict returns a call's result: OK, the name of the server's status, or another error's text.
func verdict(err error) string {
	var status *nfsclient.StatusError
	var mount *nfsclient.MountError
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &status):
		return status.Status.String()
	case errors.As(err, &mount):
		return mount.Status.String()
	}
	return err.Error()
}

// mount returns MNT's answer for a path below the base.
func (s *sides) mount(name string) string {
	_, err := s.c.MountHandle(s.ctx, path.Join(s.base, name))
	return verdict(err)
}

// root returns the handle of an export, which must exist.
func (s *sides) root(name string) nfs3.FH {
	fh, err := s.c.MountHandle(s.ctx, path.Join(s.base, name))
	if err != nil {
		panic(fmt.Sprintf("mount %s: %v", name, err))
	}
	return fh
}

// made returns the owner and mode of a file that root makes in an export.
func (s *sides) made(export, name string) string {
	n, err := s.c.Create(s.ctx, s.root(export), name, nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o640}, nfs3.Verf{})
	if err != nil {
		return verdict(err)
	}
	return fmt.Sprintf("%d:%d", n.Attr.UID, n.Attr.GID)
}

// reads returns READ's answer for a file that only root may read.
func (s *sides) reads(export string) string {
	n, err := s.c.Lookup(s.ctx, s.root(export), "secret")
	if err == nil {
		_, _, err = s.c.Read(s.ctx, n.FH, make([]byte, 10), 0)
	}
	return verdict(err)
}

// access returns the letters for the rights that ACCESS allows.
func access(c *nfsclient.Client, ctx context.Context, fh nfs3.FH) string {
	bits, err := c.Access(ctx, fh, nfs3.AccessAll)
	if err != nil {
		return verdict(err)
	}
	var b strings.Builder
	for i, word := range []string{"read ", "lookup ", "modify ", "extend ", "delete ", "execute "} {
		if bits&(1<<i) != 0 {
			b.WriteString(word)
		}
	}
	return strings.TrimSpace(b.String())
}

// lists returns EXPORT's answer, without the base.
func (s *sides) lists() string {
	list, err := s.c.Exports(s.ctx)
	if err != nil {
		return verdict(err)
	}
	var lines []string
	for _, x := range list {
		lines = append(lines, strings.TrimPrefix(x.Dir, s.base)+" "+strings.Join(x.Groups, ","))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// changed waits until the test has changed the rules.
func (s *sides) changed() string {
	if err := os.WriteFile(filepath.Join(s.home, "ready"), nil, 0o644); err != nil {
		return err.Error()
	}
	for {
		if _, err := os.Stat(filepath.Join(s.home, "changed")); err == nil {
			return "OK"
		}
		if s.ctx.Err() != nil {
			return s.ctx.Err().Error()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A question is one line in the findings.
type question struct {
	name string
	ask  func(*sides) string
}

// sidesQuestions are all questions, in the order in which they are asked.
var sidesQuestions = slices.Concat(ruleQuestions, aclQuestions, lockQuestions, crossQuestions, []question{remountBefore}, changeQuestions, remountQuestions)

var ruleQuestions = []question{
	{"mount an export", func(s *sides) string { return s.mount("open") }},
	{"mount an export of another client", func(s *sides) string { return s.mount("other") }},
	{"mount a directory that is not exported", func(s *sides) string { return s.mount("private") }},
	{"mount what is not there", func(s *sides) string { return s.mount("none") }},
	{"mount a directory below an export", func(s *sides) string { return s.mount("open/sub") }},
	{"mount a file below an export", func(s *sides) string { return s.mount("open/file") }},
	{"mount what is not there, below an export", func(s *sides) string { return s.mount("open/none") }},
	{"mount what is above all exports", func(s *sides) string { return s.mount("") }},
	{"list of exports", (*sides).lists},
	{"read-only, CREATE", func(s *sides) string { return s.made("ro", "new") }},
	{"read-only, ACCESS of root", func(s *sides) string { return access(s.c, s.ctx, s.root("ro")) }},
	{"read-only, READ", func(s *sides) string { return s.reads("ro") }},
	{"no_root_squash, owner of what root makes", func(s *sides) string { return s.made("open", "of-root") }},
	{"no_root_squash, READ of what is root's", func(s *sides) string { return s.reads("open") }},
	{"root_squash, owner of what root makes", func(s *sides) string { return s.made("squash", "of-root") }},
	{"root_squash, READ of what is root's", func(s *sides) string { return s.reads("squash") }},
	{"all_squash and anonuid, owner of what root makes", func(s *sides) string { return s.made("all", "of-root") }},
	{"LOOKUP of .. in an export's root", func(s *sides) string {
		root := s.root("open")
		n, err := s.c.Lookup(s.ctx, root, "..")
		switch {
		case err != nil:
			return verdict(err)
		case n.FH == root:
			return "the root itself"
		}
		return "another directory"
	}},
	{"LOOKUP of what leads to another export by ..", func(s *sides) string {
		_, err := s.c.Lookup(s.ctx, s.root("open"), "../other")
		return verdict(err)
	}},
}

// aclFile makes a file of user 3000 with an ACL that lets user 2000 read it.
func (s *sides) aclFile(name string) (nfs3.FH, error) {
	c := s.as(3000)
	n, err := c.Create(s.ctx, s.root("open"), name, nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o600}, nfs3.Verf{})
	if err != nil {
		return nfs3.FH{}, err
	}
	_, err = c.SetACL(s.ctx, n.FH, nfsclient.ACLs{Access: namedUser(2000, 4)}, false)
	return n.FH, err
}

// namedUser returns the ACL of a file that its owner and one more user can use.
func namedUser(uid uint32, perm uint16) posixacl.ACL {
	return posixacl.ACL{{Tag: posixacl.UserObj, Perm: 6, ID: posixacl.NoID}, {Tag: posixacl.User, Perm: perm, ID: uid},
		{Tag: posixacl.GroupObj, ID: posixacl.NoID}, {Tag: posixacl.Mask, Perm: perm, ID: posixacl.NoID}, {Tag: posixacl.Other, ID: posixacl.NoID}}
}

// withACL returns a function that makes a file by aclFile, and asks about it.
func withACL(ask func(s *sides, fh nfs3.FH) string) func(*sides) string {
	return func(s *sides) string {
		fh, err := s.aclFile("acl")
		if err != nil {
			return verdict(err)
		}
		return ask(s, fh)
	}
}

// aclText returns an ACL in the short form of getfacl.
func aclText(acl posixacl.ACL) string {
	var words []string
	for _, e := range acl {
		kind := map[posixacl.Tag]string{posixacl.UserObj: "u::", posixacl.User: fmt.Sprintf("u:%d:", e.ID), posixacl.GroupObj: "g::",
			posixacl.Group: fmt.Sprintf("g:%d:", e.ID), posixacl.Mask: "m::", posixacl.Other: "o::"}[e.Tag]
		for i, c := range "rwx" {
			if e.Perm&(4>>i) == 0 {
				c = '-'
			}
			kind += string(c)
		}
		words = append(words, kind)
	}
	return strings.Join(words, ",")
}

// acl returns GETACL's answer for an object.
func (s *sides) acl(fh nfs3.FH) string {
	acls, _, err := s.c.GetACL(s.ctx, fh)
	if err != nil {
		return verdict(err)
	}
	text := aclText(acls.Access)
	if len(acls.Default) > 0 {
		text += ", default " + aclText(acls.Default)
	}
	return text
}

var aclQuestions = []question{
	{"NFSACL", func(s *sides) string {
		has, err := s.c.HasACLs(s.ctx)
		if err == nil && !has {
			return "none"
		}
		return verdict(err)
	}},
	{"GETACL of a file without", func(s *sides) string {
		n, err := s.c.Lookup(s.ctx, s.root("open"), "file")
		if err != nil {
			return verdict(err)
		}
		return s.acl(n.FH)
	}},
	{"SETACL by the owner", withACL(func(*sides, nfs3.FH) string { return "OK" })},
	{"SETACL by somebody else", withACL(func(s *sides, fh nfs3.FH) string {
		_, err := s.as(2000).SetACL(s.ctx, fh, nfsclient.ACLs{Access: namedUser(1000, 4)}, false)
		return verdict(err)
	})},
	{"GETACL then", withACL(func(s *sides, fh nfs3.FH) string { return s.acl(fh) })},
	{"its mode", withACL(func(s *sides, fh nfs3.FH) string {
		a, err := s.c.Getattr(s.ctx, fh)
		if err != nil {
			return verdict(err)
		}
		return fmt.Sprintf("%o", a.Mode&0o7777)
	})},
	{"ACCESS of the user who is named", withACL(func(s *sides, fh nfs3.FH) string { return access(s.as(2000), s.ctx, fh) })},
	{"READ of the user who is named", withACL(func(s *sides, fh nfs3.FH) string {
		_, _, err := s.as(2000).Read(s.ctx, fh, make([]byte, 1), 0)
		return verdict(err)
	})},
	{"READ of a user who is not named", withACL(func(s *sides, fh nfs3.FH) string {
		_, _, err := s.as(1000).Read(s.ctx, fh, make([]byte, 1), 0)
		return verdict(err)
	})},
	{"READ of a user whom the ACL keeps out", func(s *sides) string {
		n, err := s.as(3000).Create(s.ctx, s.root("open"), "kept-out", nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o644}, nfs3.Verf{})
		if err == nil {
			acl := namedUser(1000, 0)
			acl[2].Perm, acl[3].Perm, acl[4].Perm = 4, 4, 4
			_, err = s.as(3000).SetACL(s.ctx, n.FH, nfsclient.ACLs{Access: acl}, false)
		}
		if err != nil {
			return verdict(err)
		}
		_, _, err = s.as(1000).Read(s.ctx, n.FH, make([]byte, 1), 0)
		return verdict(err)
	}},
	{"chmod 600, then GETACL", withACL(func(s *sides, fh nfs3.FH) string {
		if err := s.as(3000).Setattr(s.ctx, fh, nfs3.Sattr{SetMode: true, Mode: 0o600}); err != nil {
			return verdict(err)
		}
		return s.acl(fh)
	})},
	{"SETACL of a default ACL of a file", withACL(func(s *sides, fh nfs3.FH) string {
		_, err := s.as(3000).SetACL(s.ctx, fh, nfsclient.ACLs{Access: namedUser(2000, 4), Default: namedUser(2000, 4)}, true)
		return verdict(err)
	})},
	{"a default ACL, inherited by a file of mode 666", func(s *sides) string {
		c := s.as(3000)
		dir, err := c.Mkdir(s.ctx, s.root("open"), "defaults", nfs3.Sattr{SetMode: true, Mode: 0o755})
		if err == nil {
			_, err = c.SetACL(s.ctx, dir.FH, nfsclient.ACLs{Access: posixacl.FromMode(0o755), Default: namedUser(2000, 7)}, true)
		}
		if err != nil {
			return verdict(err)
		}
		n, err := c.Create(s.ctx, dir.FH, "file", nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o666}, nfs3.Verf{})
		if err != nil {
			return verdict(err)
		}
		return s.acl(n.FH)
	}},
	{"SETACL of both ACLs of a directory by somebody else", func(s *sides) string {
		dir, err := s.as(3000).Mkdir(s.ctx, s.root("open"), "of-another", nfs3.Sattr{SetMode: true, Mode: 0o755})
		if err == nil {
			_, err = s.as(2000).SetACL(s.ctx, dir.FH, nfsclient.ACLs{Access: posixacl.FromMode(0o777), Default: namedUser(2000, 7)}, true)
		}
		return verdict(err)
	}},
	{"SETACL of both ACLs of a file", func(s *sides) string {
		n, err := s.as(3000).Create(s.ctx, s.root("open"), "both", nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o600}, nfs3.Verf{})
		if err == nil {
			_, err = s.as(3000).SetACL(s.ctx, n.FH, nfsclient.ACLs{Access: namedUser(2000, 4), Default: namedUser(2000, 4)}, true)
		}
		return verdict(err)
	}},
	{"read-only, SETACL", func(s *sides) string {
		_, err := s.c.SetACL(s.ctx, s.root("ro"), nfsclient.ACLs{Access: posixacl.FromMode(0o777)}, true)
		return verdict(err)
	}},
}

// changeQuestions are about an export that goes, one that stays and one that comes, and one that
// becomes read-only.
var changeQuestions = func() []question {
	var gone, stays, fixed nfs3.FH
	return []question{
		{"before the rules change", func(s *sides) string {
			gone, stays, fixed = s.root("gone"), s.root("open"), s.root("fixed")
			return s.made("fixed", "before") + ", " + s.mount("comes")
		}},
		{"other rules", (*sides).changed},
		{"GETATTR by a handle of what is not exported any more", func(s *sides) string {
			_, err := s.c.Getattr(s.ctx, gone)
			return verdict(err)
		}},
		{"mount what is not exported any more", func(s *sides) string { return s.mount("gone") }},
		{"GETATTR by a handle of what has stayed", func(s *sides) string {
			_, err := s.c.Getattr(s.ctx, stays)
			return verdict(err)
		}},
		{"mount what is exported now", func(s *sides) string { return s.mount("comes") }},
		{"CREATE by a handle of what is read-only now", func(s *sides) string {
			_, err := s.c.Create(s.ctx, fixed, "after", nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o640}, nfs3.Verf{})
			return verdict(err)
		}},
	}
}()
