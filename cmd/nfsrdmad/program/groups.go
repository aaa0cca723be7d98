// The groups of this machine's users, from the sources in nsswitch.conf.

package program

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
)

// groupsTimeout limits the wait for a directory service to list a user's groups.
const groupsTimeout = 4 * time.Second

// errNoUser means that this machine does not have the user.
var errNoUser = errors.New("no such user")

// lookupGroups returns the primary and all groups of a user. It runs getent and id, which query the
// sources in nsswitch.conf (files, LDAP, SSSD). This program is built without the C library and
// could only read /etc/passwd and /etc/group.
func lookupGroups(uid uint32) (gid uint32, gids []uint32, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), groupsTimeout)
	defer cancel()
	line, err := output(ctx, "getent", "passwd", strconv.FormatUint(uint64(uid), 10))
	if errors.Is(err, exec.ErrNotFound) {
		return nfsserver.FileGroups(uid) // a machine without getent has only files
	}
	if err != nil {
		return 0, nil, err
	}
	name, gid, err := parsePasswd(line, uid)
	if err != nil {
		return 0, nil, err
	}
	list, err := output(ctx, "id", "-G", "--", name)
	if err != nil {
		return 0, nil, err
	}
	gids, err = parseGroups(list)
	return gid, gids, err
}

// lookupUser returns a user with its groups, for the principal with the same name. It uses the same
// sources as lookupGroups.
func lookupUser(name string) (id idmap.Identity, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), groupsTimeout)
	defer cancel()
	line, err := output(ctx, "getent", "passwd", "--", name)
	if errors.Is(err, exec.ErrNotFound) {
		return idmap.Users(name) // a machine without getent has only files
	}
	if errors.Is(err, errNoUser) {
		return id, idmap.ErrNoUser
	}
	if err != nil {
		return id, err
	}
	if id.UID, id.GID, err = parseUser(line, name); err != nil {
		return id, err
	}
	list, err := output(ctx, "id", "-G", "--", name)
	if err != nil {
		return id, err
	}
	id.GIDs, err = parseGroups(list)
	return id, err
}

// parseUser returns the numbers from the passwd(5) line of a user. getent treats a name that is a
// number as that uid, so the line's name is compared.
func parseUser(line, name string) (uid, gid uint32, err error) {
	fields := strings.Split(strings.TrimSpace(line), ":")
	if len(fields) < 4 {
		return 0, 0, fmt.Errorf("getent: %q is no line of a user", line)
	}
	if fields[0] != name {
		return 0, 0, idmap.ErrNoUser
	}
	u, err := strconv.ParseUint(fields[2], 10, 32)
	if err != nil {
		return 0, 0, err
	}
	g, err := strconv.ParseUint(fields[3], 10, 32)
	return uint32(u), uint32(g), err
}

// output returns a program's output. getent's status 2 means that the entry is missing.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // descendants may hold its output open
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "", errNoUser
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

// parsePasswd returns the name and the primary group from the passwd(5) line of user uid. getent
// treats a number that is a user's name as that name, so the line's number is compared.
func parsePasswd(line string, uid uint32) (name string, gid uint32, err error) {
	fields := strings.Split(strings.TrimSpace(line), ":")
	if len(fields) < 4 || fields[0] == "" {
		return "", 0, fmt.Errorf("getent: %q is no line of a user", line)
	}
	if id, err := strconv.ParseUint(fields[2], 10, 32); err != nil || uint32(id) != uid {
		return "", 0, errNoUser
	}
	g, err := strconv.ParseUint(fields[3], 10, 32)
	return fields[0], uint32(g), err
}

// parseGroups parses numbers separated by blanks.
func parseGroups(list string) (gids []uint32, err error) {
	for _, f := range strings.Fields(list) {
		g, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("id: %q is no group", f)
		}
		gids = append(gids, uint32(g))
	}
	return gids, nil
}
