// Rules: which principal is mapped to which user.

package idmap

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// users is a Lookup with three users. Looking up "broken" fails.
func users(name string) (Identity, error) {
	switch name {
	case "root":
		return Identity{GIDs: []uint32{0}}, nil
	case "alice":
		return Identity{1000, 1000, []uint32{1000, 27}}, nil
	case "nfs":
		return Identity{55, 55, nil}, nil
	case `LAB\carol`, "carol\x00": // as of winbind
		return Identity{9, 9, nil}, nil
	case "broken":
		return Identity{}, errors.New("no directory service")
	}
	return Identity{}, ErrNoUser
}

const tableText = `# static
alice@OTHER.ORG = alice
bob@EXAMPLE.ORG = 2000:2001
alice@STATIC.EXAMPLE.ORG=0:0  # root
nfs/db.example.org@EXAMPLE.ORG = nfs
gone@EXAMPLE.ORG = nobody-here
`

func rules(t *testing.T, strict bool) *Config {
	t.Helper()
	table, err := ParseTable("f", []byte(tableText))
	must.Succeed(t, err)
	return &Config{Realms: []string{"EXAMPLE.ORG", "LAB.EXAMPLE.ORG"}, Table: table, Strict: strict, Lookup: users}
}

// TestRules: principals of each rule are mapped to their users, and those without a rule to none.
func TestRules(t *testing.T) {
	const none = "4294967295:4294967295 []"
	for principal, want := range map[string]string{
		"alice@EXAMPLE.ORG":                   "1000:1000 [1000 27]",
		"alice@LAB.EXAMPLE.ORG":               "1000:1000 [1000 27]",
		"alice@OTHER.ORG":                     "1000:1000 [1000 27]",
		"bob@EXAMPLE.ORG":                     "2000:2001 []",
		"alice@STATIC.EXAMPLE.ORG":            "0:0 []",
		"root@EXAMPLE.ORG":                    "0:0 [0]",
		"nfs/pc7.example.org@EXAMPLE.ORG":     "0:0 []",
		"host/pc7.example.org@EXAMPLE.ORG":    "0:0 []",
		"root/pc7.example.org@EXAMPLE.ORG":    "0:0 []",
		"nfs/db.example.org@EXAMPLE.ORG":      "55:55 []",
		"broken@EXAMPLE.ORG":                  "no directory service",
		"gone@EXAMPLE.ORG":                    none,
		"carol@EXAMPLE.ORG":                   none,
		"alice@example.org":                   none,
		"alice@EXAMPLE.ORG.":                  none,
		"alice@ELSEWHERE.ORG":                 none,
		"root@ELSEWHERE.ORG":                  none,
		"nfs/pc7.example.org@ELSEWHERE.ORG":   none,
		"http/pc7.example.org@EXAMPLE.ORG":    none,
		"root/admin@EXAMPLE.ORG":              none,
		"alice/admin@EXAMPLE.ORG":             none,
		"nfs/pc7@EXAMPLE.ORG":                 none,
		"nfs/@EXAMPLE.ORG":                    none,
		"nfs/.x@EXAMPLE.ORG":                  none,
		"nfs/a.b/c@EXAMPLE.ORG":               none,
		"/pc7.example.org@EXAMPLE.ORG":        none,
		`alice\@EXAMPLE.ORG@ELSEWHERE.ORG`:    none,
		`LAB\carol@EXAMPLE.ORG`:               none,
		"carol\x00@EXAMPLE.ORG":               none,
		`alice\/x@EXAMPLE.ORG`:                none,
		"alice@ELSEWHERE.ORG@EXAMPLE.ORG":     none,
		"alice@EXAMPLE.ORG\x00@ELSEWHERE.ORG": none,
		"alice":                               none,
		"alice@":                              none,
		"@EXAMPLE.ORG":                        none,
		"":                                    none,
	} {
		got := ""
		if id, err := rules(t, false).find(principal); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%d:%d %v", id.UID, id.GID, id.GIDs)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", principal, got, want)
		}
		_, err := rules(t, true).find(principal)
		if refused := errors.Is(err, ErrRefused); refused != (want == none) {
			t.Errorf("%q, strictly: %v, refused %v, want %v", principal, err, refused, want == none)
		}
	}
}

// TestNoRealmIsLocalByDefault: without realms only the table gives users.
func TestNoRealmIsLocalByDefault(t *testing.T) {
	c := Config{Lookup: users}
	for _, principal := range []string{"alice@EXAMPLE.ORG", "nfs/pc7.example.org@EXAMPLE.ORG", "alice@"} {
		id, err := c.find(principal)
		if err != nil || id.UID != Anonymous {
			t.Errorf("%q: %v, %v, want anonymous", principal, id, err)
		}
	}
}

// TestUsers: the user of this process is found with its numbers, and an unknown name is no error.
func TestUsers(t *testing.T) {
	me, err := user.Current()
	must.Succeed(t, err)
	id, err := Users(me.Username)
	must.Succeed(t, err)
	if got, want := strconv.Itoa(int(id.UID)), strconv.Itoa(os.Getuid()); got != want {
		t.Errorf("%s has uid %s, want %s", me.Username, got, want)
	}
	if strconv.Itoa(int(id.GID)) != me.Gid {
		t.Errorf("%s has gid %d, want %s", me.Username, id.GID, me.Gid)
	}
	if _, err := Users("no-such-user-here"); !errors.Is(err, ErrNoUser) {
		t.Errorf("an unknown name: %v, want ErrNoUser", err)
	}
}
