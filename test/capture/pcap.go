// Capture files: pcap or pcapng, gzipped or not, packet by packet.

// Package capture reads packet captures of NFS over RDMA on iWARP. It parses every layer with this
// module's codecs and lets tests encode it again.
package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// source is the common interface of both formats' readers.
type source interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

// eachPacket calls f for each packet in a capture file, numbered from 1 as in other tools.
func eachPacket(file string, f func(number int, p gopacket.Packet)) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	src, err := open(in)
	if err != nil {
		return err
	}
	for number := 1; ; number++ {
		b, _, err := src.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(number, gopacket.NewPacket(b, src.LinkType(), gopacket.DecodeOptions{Lazy: true, NoCopy: true}))
	}
}

func open(r io.Reader) (source, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(z)
	}
	if magic, _ := in.Peek(4); bytes.Equal(magic, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		return pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	}
	return pcapgo.NewReader(in)
}
