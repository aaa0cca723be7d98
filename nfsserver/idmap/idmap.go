// The map from principals to users: its rules, in their order.

// Package idmap finds the user of this machine that a Kerberos principal stands for, by the rules
// of idmapd(8):
//
//   - A principal in the static table is the user or the numbers given there.
//   - A service of a host, such as nfs/pc7.example.org, is root of that host. The export's
//     root_squash makes it anonymous, as with AUTH_SYS.
//   - NAME@REALM of a local realm is the user NAME.
//   - Everyone else is anonymous, or refused (Config.Strict).
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package idmap

import (
	"errors"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Anonymous is the UID and GID of a caller without a user. An export replaces it by its anonymous
// user (anonuid). It is no valid user or group.
const Anonymous = ^uint32(0)

// An Identity is a user with its groups. GIDs are not to be modified.
type Identity struct {
	UID, GID uint32
	GIDs     []uint32
}

// anonymous is the identity of principals without a user.
var anonymous = Identity{UID: Anonymous, GID: Anonymous}

var (
	// ErrNoUser means that this machine has no such user.
	ErrNoUser = errors.New("this machine has no such user")
	// ErrRefused means that Config.Strict refuses a principal without a user.
	ErrRefused = errors.New("no rule gives the principal a user of this machine")
)

// Config are the rules of a Map.
type Config struct {
	Realms []string // local realms: their users have the same names here
	Table  *Table   // nil: empty
	// Strict refuses principals without a user, in place of making them anonymous.
	Strict bool
	// Lookup finds a user by name; ErrNoUser: there is none. It may take some seconds. nil: Users.
	Lookup func(name string) (Identity, error)
}

// services are the names of principals that belong to a host rather than to a person.
var services = []string{"nfs", "host", "root"}

// find applies the rules to a principal.
func (c *Config) find(principal string) (Identity, error) {
	id, err := c.rule(principal)
	if !errors.Is(err, ErrNoUser) {
		return id, err
	}
	if c.Strict {
		return Identity{}, ErrRefused
	}
	return anonymous, nil
}

// rule returns the identity by the first rule for the principal. ErrNoUser: none has a user.
// Another error is a failed look-up, which must not make a known user anonymous.
func (c *Config) rule(principal string) (Identity, error) {
	if t, ok := c.Table.of(principal); ok {
		if t.name != "" {
			return c.user(t.name)
		}
		return Identity{UID: t.uid, GID: t.gid}, nil
	}
	name, realm, ok := cutRealm(principal)
	if !ok || !slices.Contains(c.Realms, realm) {
		return Identity{}, ErrNoUser
	}
	if service, host, ok := strings.Cut(name, "/"); ok {
		if slices.Contains(services, service) && isHost(host) {
			return Identity{}, nil // root
		}
		return Identity{}, ErrNoUser
	}
	return c.user(name)
}

// user looks up a user.
func (c *Config) user(name string) (Identity, error) {
	if c.Lookup != nil {
		return c.Lookup(name)
	}
	return Users(name)
}

// cutRealm splits a principal at the @ before its realm. It refuses a principal with a backslash:
// no user has a name with characters that need one.
func cutRealm(principal string) (name, realm string, ok bool) {
	name, realm, ok = strings.Cut(principal, "@")
	if name == "" || realm == "" || strings.ContainsAny(principal, "\\\x00") || strings.Contains(realm, "@") {
		return "", "", false
	}
	return name, realm, ok
}

// isHost reports whether the second part of a principal is a full host name. A part without a dot
// can be a role: root/admin is a person.
func isHost(name string) bool {
	return strings.Contains(name, ".") && !strings.ContainsAny(name, "/ ") && name[0] != '.'
}

// Users looks up a user in the user database: /etc/passwd and /etc/group or, in a build with cgo,
// the sources in nsswitch.conf.
func Users(name string) (id Identity, err error) {
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return id, ErrNoUser
	}
	if err != nil {
		return id, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return id, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return id, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return id, err
	}
	id = Identity{UID: uint32(uid), GID: uint32(gid)}
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			id.GIDs = append(id.GIDs, uint32(n))
		}
	}
	return id, nil
}
