// nfsrdma cp: copies files and trees in either direction.

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/cmd/internal/treecopy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const cpLong = `Copy files and trees to, from and between servers, as cp(1) does.

Without -p, a new file has the permissions of its source less the umask, and the
time of the copy. Only -p and -a keep set-id bits, and only if the owner was kept
too. The mode includes the ACL, on servers that support NFSACL. If the target
cannot store ACLs, each file with an ACL is an error. Its copy then has a mode that
gives the group no more than the ACL did. Symbolic links are followed, or copied
as links with -r. An error is reported, the rest is copied, and the exit status
is 1.

A file is written under a temporary name beside the target
(.NAME.nfsrdma-XXXXXXXX). It is renamed when all of it is on the disk. So no other
program sees half a file. If the copy ends early, by Ctrl-C, a full disk or a lost
server, the old target stays. The new file takes owner, mode and ACL of an old
target.

Another machine may have the target open, and its handle is stale after a rename.
Therefore a file of up to 1 MiB is copied from the temporary file into the target
itself. With -p or -a, or if that fails, the target is replaced. A larger file
always replaces its target, and other machines must open it again.

A target is written in place, and stays incomplete after an error, if it

  - is a FIFO, a device, or the file behind /dev/stdout,
  - has other hard links (with -a, these keep the old content),
  - has an owner or an ACL that the new file cannot get,
  - is in a directory in which you cannot make files.

--in-place does the same for all targets.`

// cpFlags are the flags of cp.
type cpFlags struct {
	treecopy.Options
	targetFlags
	quiet, verbose bool
	followSet      bool
	sparse         string
}

func newCp(s *session.Session) *cobra.Command {
	var f cpFlags
	cmd := &cobra.Command{
		Use:   "cp [-r] SOURCE... DESTINATION",
		Short: "Copy files and trees to, from and between servers",
		Long:  cpLong,
		Example: `  nfsrdma cp server:/export/a.iso .
  nfsrdma cp a b nfsrdma://server/export/dir/
  nfsrdma cp -r server:/export/src ./src
  nfsrdma cp -a --proto tcp ./src server:/export/src2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runCp(s, cmd, args, &f) },
	}
	f.add(cmd)
	return cmd
}

func (f *cpFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVarP(&f.Recursive, "recursive", "r", false, "copy directories with all that is below them")
	fl.BoolFuncP("R", "R", "the same as -r", func(string) error { f.Recursive = true; return nil })
	fl.BoolFuncP("archive", "a", "the same as -r -P --preserve=all", func(string) error {
		f.Recursive = true
		f.follow(treecopy.FollowNever)
		return f.preserve("all")
	})
	fl.BoolFuncP("d", "d", "the same as -P --preserve=links", func(string) error {
		f.follow(treecopy.FollowNever)
		return f.preserve("links")
	})
	fl.BoolFuncP("p", "p", "the same as --preserve", func(string) error { return f.preserve(preserveDefault) })
	fl.Func("preserve", "keep what `LIST` names: mode, ownership, timestamps (these without a list), links, all", f.preserve)
	fl.Lookup("preserve").NoOptDefVal = preserveDefault
	fl.Func("no-preserve", "do not keep what `LIST` names; mode gives new files the permissions of any new file", f.noPreserve)
	follow := func(v treecopy.Follow) func(string) error {
		return func(string) error { f.follow(v); return nil }
	}
	fl.BoolFuncP("no-dereference", "P", "copy symbolic links as such (usual with -r)", follow(treecopy.FollowNever))
	fl.BoolFuncP("dereference", "L", "follow all symbolic links (usual without -r)", follow(treecopy.FollowAlways))
	fl.BoolFuncP("H", "H", "follow symbolic links among the arguments", follow(treecopy.FollowOperands))
	overwriteFlags(fl, &f.Options)
	fl.StringVar(&f.sparse, "sparse", "auto", "make holes: auto (where the source has some), always (for all zeros) or never")
	fl.BoolVar(&f.RemoveDest, "remove-destination", false, "replace each target that exists, links too, instead of writing through it")
	fl.BoolVar(&f.InPlace, "in-place", false, "write to the targets themselves, not to temporary files")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print each file as it is copied")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress bar and no summary on a terminal")
	f.targetFlags.add(cmd)
}

// overwriteFlags adds the flags common to cp and mv. The last of -f, -i and -n counts.
func overwriteFlags(fl *pflag.FlagSet, o *treecopy.Options) {
	fl.BoolFuncP("force", "f", "replace targets that must not be written", func(string) error {
		o.Force = true
		return nil
	})
	fl.BoolFuncP("interactive", "i", "ask before a target is overwritten", func(string) error {
		o.Overwrite = treecopy.OverwriteAsk
		return nil
	})
	fl.BoolFuncP("no-clobber", "n", "leave targets that exist", func(string) error {
		o.Overwrite = treecopy.OverwriteNever
		return nil
	})
	fl.BoolVarP(&o.Update, "update", "u", false, "leave targets that are not older than their sources")
}

func (f *cpFlags) follow(v treecopy.Follow) { f.Follow, f.followSet = v, true }

const preserveDefault = "mode,ownership,timestamps"

// preserve adds the attributes in a --preserve list of cp(1). NFSv3 carries no contexts and
// extended attributes.
func (f *cpFlags) preserve(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		p := &f.Preserve
		switch word {
		case "mode":
			p.Mode, f.PlainMode = true, false
		case "ownership":
			p.Owner = true
		case "timestamps":
			p.Times = true
		case "links":
			p.Links = true
		case "all":
			*p = treecopy.Preserve{Mode: true, Owner: true, Times: true, Links: true}
		default:
			return fmt.Errorf("%q must be mode, ownership, timestamps, links or all", word)
		}
	}
	return nil
}

func (f *cpFlags) noPreserve(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		p := &f.Preserve
		switch word {
		case "mode":
			p.Mode, f.PlainMode = false, true
		case "ownership":
			p.Owner = false
		case "timestamps":
			p.Times = false
		case "links":
			p.Links = false
		case "all":
			*p, f.PlainMode = treecopy.Preserve{}, true
		default:
			return fmt.Errorf("%q must be mode, ownership, timestamps, links or all", word)
		}
	}
	return nil
}

// options converts the flags for the copy engine.
func (f *cpFlags) options() (treecopy.Options, error) {
	o := f.Options
	if !f.followSet && !o.Recursive {
		o.Follow = treecopy.FollowAlways
	}
	how := map[string]treecopy.Sparse{"auto": treecopy.SparseAuto, "always": treecopy.SparseAlways, "never": treecopy.SparseNever}
	var ok bool
	if o.Sparse, ok = how[f.sparse]; !ok {
		return o, fmt.Errorf("cp: invalid argument %s for '--sparse': auto, always or never", text.QuoteAlways(f.sparse))
	}
	o.NoTargetDir, o.TargetDir = f.noDir, f.dir != ""
	o.Umask, o.Privileged = cli.Umask(), os.Geteuid() == 0
	return o, nil
}

func runCp(s *session.Session, cmd *cobra.Command, args []string, f *cpFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	r := s.Reporter("cp")
	reporting(cmd, r, f.verbose, &o)
	sources, dst, err := copyOperands(s, cmd, args, f.targetFlags)
	if err != nil {
		return err
	}
	run := treecopy.New(o)
	start := time.Now()
	shown, stop := false, func() {}
	if !f.quiet && !f.verbose && o.Overwrite != treecopy.OverwriteAsk {
		shown, stop = showProgress(s.Stderr, run)
	}
	err = run.Copy(cmd.Context(), sources, dst)
	stop()
	if err == nil {
		err = r.Err()
	}
	if err == nil && shown {
		summary(s.Stderr, run, time.Since(start))
	}
	return err
}
