// Permissions from ACLs, case by case as in acl(5).

package perm_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// object returns an Object that belongs to user 1 and group 10. Its mode is that of the ACL, with
// the mask in the group's place.
func object(mode uint32, acl posixacl.ACL) perm.Object {
	return perm.Object{Attr: &nfsserver.Attr{Type: nfsserver.TypeReg, UID: 1, GID: 10, Mode: mode}, ACL: acl}
}

// may returns all permissions that a user has.
func may(o perm.Object, c nfsserver.Cred) (have uint32) {
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if o.May(&c, bit) {
			have |= bit
		}
	}
	return have
}

func user(uid, gid uint32, more ...uint32) nfsserver.Cred {
	return nfsserver.Cred{UID: uid, GID: gid, GIDs: more}
}

func TestACL(t *testing.T) {
	o := object(0o465, posixacl.ACL{
		{Tag: posixacl.UserObj, Perm: 4, ID: posixacl.NoID},
		{Tag: posixacl.User, Perm: 7, ID: 2},
		{Tag: posixacl.User, Perm: 0, ID: 3},
		{Tag: posixacl.GroupObj, Perm: 4, ID: posixacl.NoID},
		{Tag: posixacl.Group, Perm: 2, ID: 20},
		{Tag: posixacl.Group, Perm: 1, ID: 30},
		{Tag: posixacl.Mask, Perm: 6, ID: posixacl.NoID},
		{Tag: posixacl.Other, Perm: 5, ID: posixacl.NoID},
	})
	for _, c := range []struct {
		what string
		who  nfsserver.Cred
		want uint32
	}{
		{"the owner has its entry, without the mask", user(1, 99), 4},
		{"the owner has nothing of its groups", user(1, 20), 4},
		{"a named user has its entry within the mask", user(2, 99), 6},
		{"a named user has nothing of its groups or of others", user(3, 10, 20), 0},
		{"the group has its entry", user(9, 10), 4},
		{"a named group, as a supplementary one", user(9, 99, 20), 2},
		{"a group whose entry the mask takes away is not among the others", user(9, 30), 0},
		{"each permission by some group", user(9, 10, 20), 6},
		{"the others, without the mask", user(9, 99), 5},
		{"the superuser", user(0, 0), 7},
	} {
		if got := may(o, c.who); got != c.want {
			t.Errorf("%s: %o, want %o", c.what, got, c.want)
		}
	}
	// If two groups give one permission each, they do not give both together (acl(5), step 3).
	both := user(9, 10, 20)
	if o.May(&both, nfsserver.MayRead|nfsserver.MayWrite) {
		t.Error("read and write at once, of which no one entry gives both")
	}
	if err := o.Check(&both, nfsserver.MayExec); !errors.Is(err, syscall.EACCES) {
		t.Errorf("what nobody gives: %v", err)
	}
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		mode uint32
		who  nfsserver.Cred
		want uint32
	}{
		{0o640, user(1, 99), 6}, {0o640, user(9, 10), 4}, {0o640, user(9, 99, 10), 4}, {0o647, user(9, 99), 7},
		{0o077, user(1, 10), 0}, {0o707, user(9, 10), 0}, {0o600, user(0, 0), 6}, {0o610, user(0, 0), 7},
	} {
		if got := may(object(c.mode, nil), c.who); got != c.want {
			t.Errorf("mode %o, user %d: %o, want %o", c.mode, c.who.UID, got, c.want)
		}
	}
	owner, other := user(1, 10), user(2, 10)
	o := object(0, nil)
	if !perm.Owns(&owner, o.Attr) || perm.Owns(&other, o.Attr) {
		t.Error("an owner is its own")
	}
	// the owner may always read (RFC 1813 §4.4)
	for c, want := range map[*nfsserver.Cred]bool{&owner: true, &other: false} {
		if got := o.MayRead(c); got != want {
			t.Errorf("user %d, mode 0: MayRead: got %v, want %v", c.UID, got, want)
		}
		if got := o.MayWrite(c); got != want {
			t.Errorf("user %d, mode 0: MayWrite: got %v, want %v", c.UID, got, want)
		}
	}
}

// TestSticky: only owners remove names from a sticky directory.
func TestSticky(t *testing.T) {
	dir := perm.Object{Attr: &nfsserver.Attr{Type: nfsserver.TypeDir, UID: 1, Mode: 0o1777}}
	file := &nfsserver.Attr{UID: 2}
	for uid, want := range map[uint32]error{0: nil, 1: nil, 2: nil, 3: syscall.EPERM} {
		if err := dir.MayUnlink(&nfsserver.Cred{UID: uid, GID: 9}, file); !errors.Is(err, want) {
			t.Errorf("user %d: %v, want %v", uid, err, want)
		}
	}
}
