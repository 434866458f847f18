package prober

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// checkHealth asks a server with the gRPC health protocol whether a service, or with an empty name the server itself,
// is serving.
func checkHealth(l limits, address, service string) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.remain)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent("kube-probe/"+version),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return newDialer().DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return fmt.Errorf("error: failed to connect service at %q: %w", address, err)
	}
	defer func() { _ = conn.Close() }() // no data can be lost
	if err := waitConnected(ctx, conn); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("timeout: failed to connect service %q within %v: %w", address, l.spec, err)
	} else if err != nil {
		return fmt.Errorf("error: failed to connect service at %q: %w", address, err)
	}
	answer, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: service})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return fmt.Errorf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())
	case codes.DeadlineExceeded:
		return fmt.Errorf("timeout: health rpc did not complete within %v", l.spec)
	default:
		return fmt.Errorf("error: health rpc probe failed: %w", err)
	}
	if answer.GetStatus() != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", answer.GetStatus().String())
	}
	return nil
}

// waitConnected waits until there is a connection; attempts that fail are repeated.
func waitConnected(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		conn.Connect()
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}
