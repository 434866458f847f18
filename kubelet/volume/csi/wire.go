package csi

import (
	"context"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

// driver is a connection to a driver's node service.
type driver struct {
	csispec.NodeClient
	conn *grpc.ClientConn
}

// dial prepares a connection to a socket; it is made by the first call.
func dial(endpoint string) (*driver, error) {
	conn, err := registrars.Connect(endpoint)
	if err != nil {
		return nil, err
	}
	return &driver{csispec.NewNodeClient(conn), conn}, nil
}

func (d *driver) close() { _ = d.conn.Close() }

// abilities are what a driver's node service can do.
type abilities map[csispec.NodeServiceCapability_RPC_Type]bool

func (d *driver) abilities(ctx context.Context) (abilities, error) {
	answer, err := d.NodeGetCapabilities(ctx, &csispec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	all := abilities{}
	for _, c := range answer.GetCapabilities() {
		if rpc := c.GetRpc(); rpc != nil {
			all[rpc.GetType()] = true
		}
	}
	return all, nil
}

// final reports whether a driver that answered with an error has done nothing, and does nothing any more.
func final(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	default:
		return true
	}
}
