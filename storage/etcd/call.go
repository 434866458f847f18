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

// caller makes the requests of a client, each attempt of those that clientv3 repeats.
type caller struct {
	patience time.Duration // with members to which there is no connection
}

const (
	methodTxn   = "/etcdserverpb.KV/Txn"
	methodRange = "/etcdserverpb.KV/Range"
)

// call makes a request once there is a connection. It keeps clientv3 from repeating a write that a member gave up,
// which it does although the write may have happened: the repetition would find its own change and be told that
// somebody else was faster.
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

// connected waits for a connection to a member; clientv3 would do so without end, and not tell why there is none.
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
			// A code that clientv3 takes for final.
			return status.Error(codes.Aborted, "no connection: "+whyNot(ctx, conn, invoke))
		}
	}
}

// whyNot asks gRPC why there is no connection by a request that does no harm should there be one by now.
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
