// The names of owners and groups, looked up once each.

package text

import (
	"cmp"
	"os/user"
	"strconv"
	"strings"
)

// Owners are the names that this machine has for numbers of owners and groups.
type Owners struct {
	numeric       bool
	Unknown       string // the name of a number that has none; empty: the number
	users, groups map[uint32]string
}

// NewOwners knows no name yet; with numeric it never looks one up.
func NewOwners(numeric bool) *Owners {
	return &Owners{numeric: numeric, users: make(map[uint32]string), groups: make(map[uint32]string)}
}

// User is the name of a user, or its number.
func (o *Owners) User(id uint32) string {
	return o.name(o.users, id, func(id string) string {
		if u, err := user.LookupId(id); err == nil {
			return u.Username
		}
		return cmp.Or(o.Unknown, id)
	})
}

// Group is the name of a group, or its number.
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

// Pad is to the right of a name, and to the left of a number.
func (o *Owners) Pad(s string, n int) string {
	if strings.Trim(s, "0123456789") == "" {
		return PadLeft(s, n)
	}
	return PadRight(s, n)
}
