package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/lifecycle"
)

// run nests its parts: those started later depend on the earlier ones and are stopped first.
func (c *Cluster) run(ctx context.Context) error {
	return c.with(ctx, "registry", c.registry.Run, func(ctx context.Context) error {
		if err := c.registry.WaitSynced(ctx); err != nil {
			return err
		}
		defer c.front.transport.Close()
		defer c.front.memory.Close()
		if err := c.bootstrap(ctx); err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
		if err := c.prepare(ctx); err != nil {
			return err
		}
		return c.with(ctx, "services", c.services.run, c.runInformed)
	})
}

// runInformed runs the parts that read shared caches.
func (c *Cluster) runInformed(ctx context.Context) error {
	return c.with(ctx, "informers", c.informers.Run, func(ctx context.Context) error {
		if err := c.informers.WaitSynced(ctx); err != nil {
			return err
		}
		c.life.informed.fire()
		if !c.has(controllermanager.ServiceAccount) {
			c.life.ready.fire()
		}
		if err := lifecycle.Group(c.parts...).Run(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// with runs a foundation and the rest that depends on it. If the foundation fails, the rest is stopped; when the rest
// is done, the foundation is stopped.
func (c *Cluster) with(ctx context.Context, name string, foundation, rest func(context.Context) error) error {
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	above, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		err := foundation(below)
		cancel()
		failed <- err
	}()
	err := rest(above)
	if above.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	stop()
	if foundationErr := <-failed; foundationErr != nil {
		return fmt.Errorf("%s: %w", name, foundationErr)
	}
	return err
}
