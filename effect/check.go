package effect

import "fmt"

// Check adds a rule of the business that parameters must obey: nil, or what is wrong, in words that whoever changed the
// call may read. It is pure, and is asked before a call is reserved and before a change of it is accepted. Parameters with a
// method Valid() error are asked without it.
func (e Effect[In, Out]) Check(rule func(In) error) Effect[In, Out] {
	return e.with(func(d *declaration) {
		if rule == nil {
			d.fault("Check(nil): name a rule, or leave it out")
			return
		}
		before := d.check
		d.check = func(params []byte) error {
			if err := before(params); err != nil {
				return err
			}
			in, err := decoded[In](params)
			if err != nil {
				return err
			}
			return rule(in)
		}
	})
}

// valid is the rule that parameters bring along.
func valid[In any](params []byte) error {
	in, err := decoded[In](params)
	if err != nil {
		return err
	}
	if v, ok := any(&in).(interface{ Valid() error }); ok {
		return v.Valid()
	}
	return nil
}

// checked asks the rules. A panic of one is a refusal.
func (d *declaration) checked(params []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	return d.check(params)
}

// sound asks the rules about the call that would be made now, and what it would use of limits.
func (w *doing) sound(s *seen) (err error) {
	doc := w.doc
	if edited(s.op, w.print) {
		if doc, err = w.led.ring.open(s.op, paramsOf); err != nil {
			return err
		}
	}
	if err = w.d.checked(doc); err == nil {
		w.wants, err = w.d.wants(doc)
	}
	if err != nil {
		return &InputError{Effect: w.d.name, Ref: w.ref, Err: err}
	}
	return nil
}

// edited says that what is authorised is not what the node proposes.
func edited(op *Operation, proposed Print) bool {
	return op != nil && op.Editor != "" && op.Proposed == proposed && op.State == StateReserved
}

// callOf is the digest of the exact call that an operation would make.
func (w *doing) callOf(op *Operation) string {
	if edited(op, w.print) {
		return w.digest(op.Authorised)
	}
	return w.call
}

func (w *doing) digest(p Print) string {
	return callDigest(w.info.Tenant, w.d.name, w.ref, p, w.d.target(), w.led.policy, w.info.Graph, w.info.Version)
}

// callDigest is what an approval is bound to.
func callDigest(tenant, effect string, ref Reference, p Print, target, policy, graph, version string) string {
	return digest("pawl.call.1", tenant, effect, ref.String(), p.Whole, target, policy, graph, version)
}
