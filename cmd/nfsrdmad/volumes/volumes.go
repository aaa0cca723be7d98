// The program nfsrdmad-juicefs: its Kind, and the flags of serve.

// Package volumes is the command line of nfsrdmad-juicefs. JuiceFS is in a separate module, so the
// reference and the tests of help and manual pages need not build it.
package volumes

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Serve has the flags of serve that nfsrdmad lacks, named as in juicefs mount.
type Serve struct {
	CacheDir, Subdir           string
	CacheSize, BufferSize      string // in the syntax of program.ParseSize
	UploadLimit, DownloadLimit int64  // megabits per second; 0: the volume's limits
	MaxUploads, Retries        int
	TrashDays                  int
	Heartbeat                  time.Duration
	SharedReplies              bool
}

// AddFlags adds the flags of serve.
func (s *Serve) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.CacheDir, "cache-dir", "", "cache blocks of the object storage in this `DIR` (default: no cache)")
	f.StringVar(&s.CacheSize, "cache-size", "100G", "hold at most `SIZE` bytes in --cache-dir, with K, M or G")
	f.StringVar(&s.BufferSize, "buffer-size", "300M", "hold at most `SIZE` bytes in flight to and from the object storage, for each volume")
	f.Int64Var(&s.UploadLimit, "upload-limit", 0, "send at most `N` megabits per second to the object storage (default: the limit of the volume)")
	f.Int64Var(&s.DownloadLimit, "download-limit", 0, "receive at most `N` megabits per second from the object storage (default: the limit of the volume)")
	f.IntVar(&s.MaxUploads, "max-uploads", 20, "upload `N` blocks at once")
	f.IntVar(&s.Retries, "io-retries", 10, "repeat a failed request to a service `N` times, after growing waits: 10 take some minutes")
	f.DurationVar(&s.Heartbeat, "heartbeat", 12*time.Second, "report to other clients of the volume each `TIME`; after five missed reports they take the locks of this server")
	f.BoolVar(&s.SharedReplies, "shared-replies", true, "record each REMOVE, RMDIR, RENAME and LINK in the metadata, so that another server recognizes a repeated call; not for volumes in directories")
	f.StringVar(&s.Subdir, "subdir", "", "export only this `DIR` of the volumes")
	f.IntVar(&s.TrashDays, "trash-days", 0, "in a new volume, keep removed files `N` days in the trash")
}

// Kind returns the program nfsrdmad-juicefs. volume opens an argument of serve with the flags in s;
// format makes a volume.
func Kind(s *Serve, volume func(arg string, p program.Settings) (program.Volume, error), format func(*cobra.Command, *Format) error) *program.Kind {
	return &program.Kind{Program: programHelp, Serve: serveHelp, Exports: "/etc/nfsrdma/juicefs-exports", Dir: "nfsrdma-juicefs",
		Flags: s.AddFlags, Volume: volume, Commands: []*cobra.Command{newFormat(format)}}
}
