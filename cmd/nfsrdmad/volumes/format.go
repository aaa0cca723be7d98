// The command format: its help and flags.

package volumes

import (
	"github.com/spf13/cobra"
)

// A Format has the arguments and flags of format.
type Format struct {
	Meta, Name      string // the metadata service's URL, and the volume's name
	Storage, Bucket string
	AccessKey       string
	SecretKeyFile   string
	Compression     string
	Capacity        string // in the syntax of program.ParseSize; "": no limit
	Inodes          uint64
	TrashDays       int
	Replace         string // the name of a volume to replace
}

func newFormat(run func(*cobra.Command, *Format) error) *cobra.Command {
	var o Format
	c := &cobra.Command{
		Use:   "format METADATA-URL NAME",
		Short: "Make a volume",
		Long: `Make a JuiceFS volume, as juicefs format does. Its metadata is in a service, and its
objects are in an object storage. Then nfsrdmad-juicefs can serve the volume, and
juicefs mount can mount it.

If the bucket is missing, it is made. An object is stored and read as a test. If the
test fails, no volume is made. A metadata service that already has a volume is an
error. --replace with the name of that volume replaces it, and its files are lost.

Do not put passwords on a command line. The password of the metadata service comes
from META_PASSWORD, or for Redis from the file META_PASSWORD_FILE. The keys of the
object storage come from ACCESS_KEY, SECRET_KEY and SESSION_TOKEN. The secret key can
also be the first line of --secret-key-file. The metadata keeps the keys, and encrypts
the secret ones.`,
		Example: `  # with META_PASSWORD and SECRET_KEY in the environment
  nfsrdmad-juicefs format --storage s3 --bucket https://s3.example.org/data \
      --access-key joe redis://10.0.0.9/1 data

  nfsrdmad-juicefs format --bucket /srv/objects redis://127.0.0.1/1 data`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			o.Meta, o.Name = args[0], args[1]
			return run(c, &o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Storage, "storage", "file", "kind of object `STORAGE`, as in JuiceFS: file, s3, minio, gs ...")
	f.StringVar(&o.Bucket, "bucket", "", "`URL` of the bucket, or a directory of this machine for file")
	f.StringVar(&o.AccessKey, "access-key", "", "access `KEY` of the object storage (default: ACCESS_KEY)")
	f.StringVar(&o.SecretKeyFile, "secret-key-file", "", "`FILE` with the secret key (default: SECRET_KEY)")
	f.StringVar(&o.Compression, "compress", "", "compress blocks: lz4 or zstd")
	f.StringVar(&o.Capacity, "capacity", "", "hold at most `SIZE` bytes, with K, M or G (default: no limit)")
	f.Uint64Var(&o.Inodes, "inodes", 0, "hold at most `N` files and directories; 0: no limit")
	f.IntVar(&o.TrashDays, "trash-days", 0, "keep removed files `N` days in the trash")
	f.StringVar(&o.Replace, "replace", "", "replace the existing volume `NAME`: its files are lost")
	return c
}
