// gRPC over connections: a service of gRPC's own, calls and streams.

package rconn

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestGRPC(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		cfg, addr := config(t, network)
		l, err := rconn.Listen(network, addr, cfg)
		must.Succeed(t, err)
		service := health.NewServer()
		server := grpc.NewServer()
		healthpb.RegisterHealthServer(server, service)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()

		conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return rconn.Dial(ctx, network, addr, cfg)
			}))
		must.Succeed(t, err)
		client := healthpb.NewHealthClient(conn)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 100 {
			answer, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
			must.Succeed(t, err)
			must.Equal(t, "status", answer.Status, healthpb.HealthCheckResponse_SERVING)
		}
		stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "x"})
		must.Succeed(t, err)
		for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVICE_UNKNOWN,
			healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
			if want != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
				service.SetServingStatus("x", want)
			}
			answer, err := stream.Recv()
			must.Succeed(t, err)
			must.Equal(t, "watched status", answer.Status, want)
		}
		must.Succeed(t, conn.Close())
		server.Stop()
		must.Succeed(t, <-served)
	})
}
