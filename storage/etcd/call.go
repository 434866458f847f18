package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// caller makes a client's requests, and each attempt of those that clientv3 repeats.
type caller struct {
	patience time.Duration // how long to wait while no member is connected
}

const (
	methodTxn   = "/etcdserverpb.KV/Txn"
	methodRange = "/etcdserverpb.KV/Range"
)

// call makes a request once there is a connection. It keeps clientv3 from repeating a write that a member gave up on.
// That write may have happened: the repetition would then find its own change and report a conflict.
//
//nolint:revive // the parameters are gRPC's
func (c caller) call(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if err := c.connected(ctx, conn, invoke); err != nil {
		return err
	}
	err := invoke(ctx, method, request, reply, conn, append(options, grpc.WaitForReady(false))...)
	if method != methodTxn || ctx.Err() != nil {
		return err
	}
	if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
		return status.Error(codes.Unknown, "given up by the member: "+status.Convert(err).Message())
	}
	return err
}

// connected waits for a connection to a member. clientv3 would wait forever, without saying why there is none.
func (c caller) connected(ctx context.Context, conn *grpc.ClientConn, invoke grpc.UnaryInvoker) error {
	limit, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(limit, state) {
			// clientv3 does not repeat a request that failed with this code.
			return status.Error(codes.Aborted, "no connection: "+whyNot(ctx, conn, invoke))
		}
	}
}

// whyNot asks gRPC why there is no connection, by a request that does no harm if there is one by now.
func whyNot(ctx context.Context, conn *grpc.ClientConn, invoke grpc.UnaryInvoker) string {
	const moment = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moment)
	defer cancel()
	err := invoke(ctx, methodRange, &pb.RangeRequest{Key: []byte(healthKey)}, &pb.RangeResponse{}, conn, grpc.WaitForReady(false))
	if status.Code(err) == codes.Unavailable {
		return status.Convert(err).Message()
	}
	return fmt.Sprintf("its state is %s", conn.GetState())
}
