// The names of owners and groups, looked up once each.

package text

import (
	"cmp"
	"os/user"
	"strconv"
	"strings"
)

// Owners maps the numbers of users and groups to this machine's names.
type Owners struct {
	numeric       bool
	Unknown       string // replaces the name of unknown numbers; empty: print the number
	users, groups map[uint32]string
}

// NewOwners returns an empty cache; with numeric it never looks up a name.
func NewOwners(numeric bool) *Owners {
	return &Owners{numeric: numeric, users: make(map[uint32]string), groups: make(map[uint32]string)}
}

// User returns a user's name, or the number.
func (o *Owners) User(id uint32) string {
	return o.name(o.users, id, func(id string) string {
		if u, err := user.LookupId(id); err == nil {
			return u.Username
		}
		return cmp.Or(o.Unknown, id)
	})
}

// Group returns a group's name, or the number.
func (o *Owners) Group(id uint32) string {
	return o.name(o.groups, id, func(id string) string {
		if g, err := user.LookupGroupId(id); err == nil {
			return g.Name
		}
		return cmp.Or(o.Unknown, id)
	})
}

func (o *Owners) name(known map[uint32]string, id uint32, find func(string) string) string {
	if s, ok := known[id]; ok {
		return s
	}
	s := strconv.FormatUint(uint64(id), 10)
	if !o.numeric {
		s = find(s)
	}
	known[id] = s
	return s
}

// Pad pads a name on the right and a number on the left.
func (o *Owners) Pad(s string, n int) string {
	if strings.Trim(s, "0123456789") == "" {
		return PadLeft(s, n)
	}
	return PadRight(s, n)
}
