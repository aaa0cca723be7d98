// Shell completion of remote paths: lists the typed directory on its server.

package main

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

// completeTimeout limits a completion, because a user is waiting. Tests set a longer limit for busy
// machines.
var completeTimeout = 2 * time.Second

// completeMost limits the number of names; a shell shows no more.
const completeMost = 2000

// completePaths completes remote paths. With local, the shell completes all other arguments as
// local files. Errors are ignored: their text would appear in the line being typed.
func completePaths(s *session.Session, local bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		slash := strings.LastIndexByte(typed, '/')
		if _, err := nfsclient.ParseTarget(typed); err != nil || slash < 0 {
			if local {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s.Stderr = io.Discard
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		dir := typed[:slash+1]
		list := completions(ctx, s, dir, typed[slash+1:], strings.Contains(typed, "://"))
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(list) == 1 && strings.HasSuffix(list[0], "/") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return list, directive
	}
}

// completions returns the names in the directory dir that begin with prefix, with dir in front and
// a slash after directories. Above the exports it returns their paths.
func completions(ctx context.Context, s *session.Session, dir, prefix string, isURL bool) []string {
	t, err := s.Target(dir)
	if err != nil {
		return nil
	}
	escape := func(name string) string { return name }
	if isURL {
		escape = func(name string) string { return (&url.URL{Path: "/" + name}).EscapedPath()[1:] }
		if plain, err := url.PathUnescape(prefix); err == nil {
			prefix = plain
		}
	}
	c, err := s.Dial(ctx, t)
	if err != nil {
		return nil
	}
	fsys, rest, err := c.MountPath(ctx, t.Path)
	if err != nil {
		return exportsBelow(ctx, c, t.Path, prefix, func(below string) string { return dir + escape(below) })
	}
	var list []string
	for e, err := range fsys.Entries(ctx, rest) {
		name := ""
		if err == nil {
			name = e.Name()
		}
		switch {
		case err != nil || len(list) == completeMost:
			return list
		case !strings.HasPrefix(name, prefix), prefix == "" && name[0] == '.', strings.ContainsAny(name, "\t\n\r"):
			continue // a shell reads one name per line
		}
		full := dir + escape(name)
		n, err := e.Node()
		if err == nil && n.Attr.Type == nfs3.TypeLnk {
			n, err = fsys.Walk(ctx, session.Below(rest, name), true)
		}
		if err == nil && n.Attr.Type == nfs3.TypeDir {
			full += "/"
		}
		list = append(list, full)
	}
	return list
}

// exportsBelow returns the exports whose path begins with at and prefix, without at.
func exportsBelow(ctx context.Context, c *nfsclient.Client, at, prefix string, full func(below string) string) []string {
	exports, err := c.Exports(ctx)
	if err != nil {
		return nil
	}
	var list []string
	for _, x := range exports {
		below, ok := strings.CutPrefix(x.Dir, at)
		if ok && below != "" && strings.HasPrefix(below, prefix) && !strings.ContainsAny(below, "\t\n\r") {
			list = append(list, full(below)+"/")
		}
	}
	return list
}
