// The transfer between two devices in this process, and peers whose requests are refused.

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// each runs a test over both providers.
func each(t *testing.T, test func(t *testing.T, dev *rnic.Device)) {
	for _, provider := range []string{"iwarp", "roce"} {
		t.Run(provider, func(t *testing.T) {
			dev, err := rnic.Open(provider, rnic.DeviceConfig{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, dev)
		})
	}
}

// listen starts to receive once, at an address of its own. It returns channels for the data and for
// the error.
func listen(t *testing.T, dev *rnic.Device) (at string, received <-chan []byte, failed <-chan error) {
	t.Helper()
	at = net.JoinHostPort(machine.Addr(t).String(), strconv.Itoa(machine.Port(t)))
	l, err := dev.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got, failure := make(chan []byte, 1), make(chan error, 1)
	go func() {
		data, err := receive(t.Context(), dev, l)
		if err != nil {
			failure <- err
			return
		}
		got <- data
	}()
	return at, got, failure
}

func TestTransfer(t *testing.T) {
	each(t, func(t *testing.T, dev *rnic.Device) {
		at, received, failed := listen(t, dev)
		want := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
		if err := send(t.Context(), dev, at, want); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-received:
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes came, which are not the %d that were sent", len(got), len(want))
			}
		case err := <-failed:
			t.Error(err)
		}
	})
}

// TestSizeIsBounded: a peer that sends no size, or asks for more memory than limit, is refused.
func TestSizeIsBounded(t *testing.T) {
	each(t, func(t *testing.T, dev *rnic.Device) {
		for _, private := range [][]byte{nil, binary.BigEndian.AppendUint64(nil, limit+1)} {
			at, received, failed := listen(t, dev)
			qp, _, err := newQP(dev, dev.AllocPD())
			if err != nil {
				t.Fatal(err)
			}
			err = dev.Connect(t.Context(), qp, at, rnic.ConnParams{PrivateData: private})
			qp.Close()
			if _, refused := errors.AsType[*rnic.RejectError](err); !refused {
				t.Errorf("private data % x: %v, want a refusal", private, err)
			}
			select {
			case <-received:
				t.Errorf("private data % x: the transfer succeeded", private)
			case <-failed:
			}
		}
	})
}
