// Start-up with a peer that sends arbitrary bytes, or too few, in simulated time.

package iwarp_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// Bits in the first byte of FuzzStartup's input.
const (
	startInitiate = 1 << iota // we are the initiator
	startMarkers
	startReject // we refuse
	startStay   // the peer keeps the connection and sends no more
	startCRC    // with the bit above: CRCMode
	_
	startRTR // with the bit above, as initiator: an RTR, a Write or a Read, is offered
)

// FuzzStartup takes the modes, the number of bytes in each write by the peer, then all its bytes.
// Start-up ends with a connection or an error. A peer that sends too little is cut off in time.
func FuzzStartup(f *testing.F) {
	enhanced := mpa.Enhanced{IRD: 4, ORD: 4, PeerToPeer: true, RTRWrite: true}
	reads := mpa.Enhanced{IRD: 4, ORD: 4, PeerToPeer: true, RTRRead: true}
	for mode := range 256 {
		mode := byte(mode)
		reply := mode&startInitiate != 0
		for _, frame := range []mpa.Frame{
			{Reply: reply, Rev: mpa.Rev1, CRC: true, PrivateData: []byte("private")},
			{Reply: reply, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: enhanced, Markers: mode&startMarkers == 0},
			{Reply: reply, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: reads},
			{Reply: reply, Rev: mpa.Rev2, HasEnhanced: true, Reject: reply, Enhanced: mpa.Enhanced{IRD: mpa.NotNegotiated, ORD: 999}},
		} {
			b := mpa.AppendFrame([]byte{mode, mode}, &frame)
			f.Add(b)
			f.Add(b[:len(b)-1])
			f.Add(mpa.AppendFPDU(b, true, []byte("a ULPDU")))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2048 {
			return
		}
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) { fuzzStartup(t, b) })
	})
}

func fuzzStartup(t *testing.T, b []byte) {
	s := rnictest.Script(b)
	mode, piece := s.Byte(), int(s.Byte())+1
	dev := iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCMode(mode / startCRC & 3 % 3), Markers: mode&startMarkers != 0, MaxIRD: 8})
	pd, cq := dev.AllocPD(), dev.NewCQ(8)
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 1, RQDepth: 1})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	l := rnictest.Listen()
	rl, ended := begin(t, dev, qp, l, mode)
	near, err := l.Dial()
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	heard := make(chan struct{})
	go func() {
		io.Copy(io.Discard, near)
		close(heard)
	}()
	for s.More() {
		if _, err := near.Write(s.Take(piece)); err != nil {
			break
		}
	}
	synctest.Wait()
	if mode&startStay != 0 {
		stayed(t, ended, heard)
	}
	near.Close()
	<-heard
	synctest.Wait()
	if rl != nil {
		rl.Close()
	}
	l.Close()
	if err := <-ended; err == nil {
		<-qp.Done()
	} else if qp.State() != rnic.StateIdle {
		if mode/startRTR == 0 {
			t.Errorf("%v, and the QP is in state %v", err, qp.State())
		}
		<-qp.Done() // the RTR was not answered
	}
	qp.Close()
}

// begin starts our side. The channel gets the result.
func begin(t *testing.T, dev *rnic.Device, qp *rnic.QP, l *rnictest.Listener, mode byte) (rnic.Listener, chan error) {
	ended := make(chan error, 1)
	if mode&startInitiate != 0 {
		go func() {
			c, err := l.Accept()
			if err == nil {
				err = dev.ConnectOver(t.Context(), qp, c, rnic.ConnParams{PrivateData: []byte("ours"), Provider: iwarp.ConnOptions{RTR: iwarp.RTR(mode / startRTR), Settle: -1}})
			}
			ended <- err
		}()
		return nil, ended
	}
	rl := dev.ListenOn(l)
	go func() {
		req, err := rl.Accept(context.Background())
		switch {
		case err != nil:
		case mode&startReject != 0:
			req.Reject([]byte("no"))
			err = errors.New("rejected")
		default:
			err = req.Accept(qp, rnic.ConnParams{PrivateData: []byte("ours")})
		}
		ended <- err
	}()
	return rl, ended
}

// stayed checks that start-up has succeeded or failed a minute later.
func stayed(t *testing.T, ended chan error, heard chan struct{}) {
	time.Sleep(time.Minute)
	select {
	case <-heard:
	default:
		if len(ended) == 0 {
			t.Error("start-up has not ended")
		}
	}
}
