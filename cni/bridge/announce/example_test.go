package announce_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/bridge/announce"
)

// A node announces its pods for as long as it runs.
func Example() {
	b, err := bridge.New([]netip.Prefix{netip.MustParsePrefix("10.64.0.0/24")}, bridge.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := announce.New(b, announce.Options{Logger: slog.Default()}).Run(ctx); err != nil { // it needs root
		fmt.Println(err)
	}
}
