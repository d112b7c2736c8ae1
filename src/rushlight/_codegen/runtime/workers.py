"""The module of `threads.py`, in LLVM's language: workers, and how they share a job.

How it works. The job and a *ticket* stand in memory. The ticket says which chunks nobody has claimed:
those from `low` to `high`; its upper half counts the jobs. Who can replace the ticket by one with a
chunk less has claimed that chunk: the caller at the low end, workers at the high end, so that two
threads that do the same job again find their part of the data in their own caches. (With more than
65535 chunks, batches of neighbours are claimed.) Because a job is only written over while nothing of
it is left, and because no ticket ever comes back, the job that was read before the ticket was replaced
is the ticket's job: a worker that slept through a few jobs cannot run an old body in a new one. The
caller then waits for the chunks that are claimed and not finished. Nothing waits for a worker that
never came, so a core that another process holds costs what that core would have done.

Workers wait for 30 us in a loop, since the next job is usually near, and then sleep in the kernel
(futex). To wake them takes about 10 us, so one that was woken soon after it fell asleep waits for
240 us the next time. A job that takes less than that says so by a grain of `NEAR` more: only workers
that are awake take part, and where all sleep, one in sixteen wakes them, since where many come more
do.

Cores that share no cache, or that others use, take up a job late, and read what another core wrote
slowly: jobs of `NEAR` that they take part in take twice as long. Now and then a job that does nothing
tells how long a worker takes for that. While that is long, such jobs are not shared. All others are: a chunk
of theirs may take milliseconds.

Only one job runs at a time: a call from inside of a job, or from another thread while a job runs,
goes through its chunks by itself. The state of the floating-point unit is the caller's in all threads,
and the exceptions that a body raises are not seen by the caller, so NumPy has nothing to warn of. A
forked child starts without workers and makes its own when it has a job.

Elsewhere than on Linux the same function does all chunks one after the other.
"""

from __future__ import annotations

from re import sub
from typing import Any

from rushlight._codegen.language import NEAR

SPIN = 30_000  # nanoseconds that a worker waits awake
_ALERT = 8  # so many times as long where jobs come that near
FAR = 350  # nanoseconds in which a worker that is near has done nothing: 200 on cores that share a cache, else 400 to 1000
_EVERY = 1024  # jobs after which one does nothing
_MISSED = 16  # jobs of a grain of NEAR more after which sleepers wake

# What depends on the processor. modes(): the state of its floating-point unit, as one number.
_PROCESSOR: dict[str, tuple[str, dict[str, Any]]] = {
    "x86_64": (
        """
        declare void @llvm.x86.sse.stmxcsr(ptr)
        declare void @llvm.x86.sse.ldmxcsr(ptr)
        declare void @llvm.x86.sse2.pause()
        declare i64 @llvm.readcyclecounter()
        define i64 @ticks() {
          %now = call i64 @llvm.readcyclecounter()
          ret i64 %now
        }
        define internal void @pause() {
          call void @llvm.x86.sse2.pause()
          ret void
        }
        define internal i64 @modes() {
          %at = alloca i32
          call void @llvm.x86.sse.stmxcsr(ptr %at)
          %word = load i32, ptr %at
          %modes = zext i32 %word to i64
          ret i64 %modes
        }
        define internal void @set_modes(i64 %modes) {
          %at = alloca i32
          %word = trunc i64 %modes to i32
          store i32 %word, ptr %at
          call void @llvm.x86.sse.ldmxcsr(ptr %at)
          ret void
        }
        """,
        # raised exceptions; flush results and operands to zero; number of futex(2)
        {"RAISED": 0x3F, "FLUSH": 0x8040, "FUTEX": 202},
    ),
    "aarch64": (
        """
        declare i64 @llvm.aarch64.get.fpcr()
        declare i64 @llvm.aarch64.get.fpsr()
        declare void @llvm.aarch64.set.fpcr(i64)
        declare void @llvm.aarch64.set.fpsr(i64)
        declare void @llvm.aarch64.hint(i32)
        define i64 @ticks() {
          %now = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()
          ret i64 %now
        }
        define internal void @pause() {
          call void @llvm.aarch64.hint(i32 1)
          ret void
        }
        define internal i64 @modes() {
          %control = call i64 @llvm.aarch64.get.fpcr()
          %status = call i64 @llvm.aarch64.get.fpsr()
          %high = shl i64 %status, 32
          %modes = or i64 %control, %high
          ret i64 %modes
        }
        define internal void @set_modes(i64 %modes) {
          %control = and i64 %modes, 4294967295
          %status = lshr i64 %modes, 32
          call void @llvm.aarch64.set.fpcr(i64 %control)
          call void @llvm.aarch64.set.fpsr(i64 %status)
          ret void
        }
        """,
        {"RAISED": 0x9F << 32, "FLUSH": 1 << 24, "FUTEX": 98},
    ),
}

# All chunks in the caller, and the settings of the floating-point unit.
_SERIAL = """
define internal void @chunk(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %k) {
  %low = mul i64 %k, %grain
  %rest = sub i64 %n, %low
  %short = icmp ult i64 %rest, %grain
  %size = select i1 %short, i64 %rest, i64 %grain
  %high = add i64 %low, %size
  call void %body(ptr %args, i64 %low, i64 %high)
  ret void
}

define internal void @serial(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %first, i64 %end) noinline {
entry:
  br label %next
next:
  %k = phi i64 [ %first, %entry ], [ %k1, %next ]
  call void @chunk(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %k)
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %end
  br i1 %more, label %next, label %done
done:
  ret void
}

define void @rushlight_parallel(ptr %body, ptr %args, i64 %n, i64 %asked) {
entry:
  %modes = call i64 @modes()
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %split, label %done
split:
  %near = icmp sge i64 %asked, $NEAR
  %less = sub i64 %asked, $NEAR
  %told = select i1 %near, i64 %less, i64 %asked
  %positive = icmp sgt i64 %told, 0
  %grain = select i1 %positive, i64 %told, i64 %n
  %last = sub i64 %n, 1
  %before = udiv i64 %last, %grain
  %chunks = add i64 %before, 1
  %shared = call i1 @share(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %chunks, i64 %modes, i1 %near)
  br i1 %shared, label %done, label %alone
alone:
  call void @serial(ptr %body, ptr %args, i64 %n, i64 %grain, i64 0, i64 %chunks)
  br label %done
done:
  call void @set_modes(i64 %modes)
  ret void
}

define void @flush(i32 %on) {
  %modes = call i64 @modes()
  %without = and i64 %modes, ~FLUSH
  %with = or i64 %modes, $FLUSH
  %yes = icmp ne i32 %on, 0
  %new = select i1 %yes, i64 %with, i64 %without
  call void @set_modes(i64 %new)
  ret void
}
"""

_ALONE = """
define internal i1 @share(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %chunks, i64 %modes, i1 %near) {
  ret i1 false
}
define void @threads(i32 %wanted) {
  ret void
}
define void @pauses(i32 %count) {
  ret void
}
define void @spins(i32 %count, i32 %ticks) {
  ret void
}
define void @forked() {
  ret void
}
"""

# All that follows has its own lines of the cache: what one thread writes does not slow down what
# others read.
_SHARED = """
@ticket = internal global i64 0, align 128    ; jobs so far << 32 | high << 16 | low
@job = internal global [7 x i64] zeroinitializer, align 128  ; body args n grain chunks modes batch
@left = internal global i32 0, align 128      ; batches of the job that are not finished
@waiting = internal global i32 0, align 128   ; does the caller sleep until `left` is 0?
@busy = internal global i32 0, align 128      ; is there a job? Who sets it owns what stands above
@created = internal global i32 0, align 4     ; workers that were started, also guarded by `busy`
@wanted = internal global i32 0, align 128    ; workers that take part: those of a lower number
@patience = internal global i32 1000, align 4
@sleepers = internal global i32 0, align 128  ; workers that sleep, or are about to
@wakeups = internal global i32 0, align 4     ; changes when they are to wake up
@missed = internal global i32 0, align 4      ; small jobs that nobody was awake for
@jobs = internal global i32 0, align 4        ; since a worker was asked to do nothing
@slow = internal global i32 0, align 4        ; whether that took long
@soon = internal global i64 -1, align 8       ; how many ticks are long
@nap = internal constant [2 x i64] [i64 0, i64 $NAP]   ; seconds and nanoseconds

declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.umin.i32(i32, i32)
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)

; Sleep while the word has this value, until somebody wakes us, for a time or (null) without end.
define internal void @sleep(ptr %word, i32 %value, ptr %time) noinline {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 128, i32 %value, ptr %time)
  ret void
}

define internal void @wake(ptr %word, i32 %count) noinline {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 129, i32 %count)
  ret void
}

define void @pauses(i32 %count) {
entry:
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  call void @pause()
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %count
  br i1 %more, label %next, label %done
done:
  ret void
}

define internal i1 @claimed(i64 %ticket) {   ; all of it?
  %low = trunc i64 %ticket to i16
  %above = lshr i64 %ticket, 16
  %high = trunc i64 %above to i16
  %all = icmp eq i16 %low, %high
  ret i1 %all
}

define internal void @work(i1 %worker) noinline {   ; run batches until none is left to claim
entry:
  br label %look
look:
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %none = call i1 @claimed(i64 %ticket)
  br i1 %none, label %done, label %claim
claim:
  %body = load atomic ptr, ptr @job monotonic, align 8
  %args = load atomic ptr, ptr getelementptr (i64, ptr @job, i64 1) monotonic, align 8
  %n = load atomic i64, ptr getelementptr (i64, ptr @job, i64 2) monotonic, align 8
  %grain = load atomic i64, ptr getelementptr (i64, ptr @job, i64 3) monotonic, align 8
  %chunks = load atomic i64, ptr getelementptr (i64, ptr @job, i64 4) monotonic, align 8
  %modes = load atomic i64, ptr getelementptr (i64, ptr @job, i64 5) monotonic, align 8
  %batch = load atomic i64, ptr getelementptr (i64, ptr @job, i64 6) monotonic, align 8
  %step = select i1 %worker, i64 -65536, i64 1
  %next = add i64 %ticket, %step
  %swap = cmpxchg ptr @ticket, i64 %ticket, i64 %next acq_rel monotonic, align 8
  %claimed = extractvalue { i64, i1 } %swap, 1
  br i1 %claimed, label %run, label %look
run:
  call void @set_modes(i64 %modes)
  %low = and i64 %ticket, 65535
  %above = lshr i64 %next, 16
  %high = and i64 %above, 65535
  %which = select i1 %worker, i64 %high, i64 %low
  %first = mul i64 %which, %batch
  %to = add i64 %first, %batch
  %end = call i64 @llvm.umin.i64(i64 %to, i64 %chunks)
  call void @serial(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %first, i64 %end)
  %before = atomicrmw sub ptr @left, i32 1 seq_cst, align 4
  %last = icmp eq i32 %before, 1
  br i1 %last, label %report, label %look
report:
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %call, label %look
call:
  call void @wake(ptr @left, i32 1)
  br label %look
done:
  ret void
}

define internal ptr @worker(ptr %argument) {
entry:
  %number = ptrtoint ptr %argument to i32
  br label %start
start:
  %alertness = phi i32 [ 1, %entry ], [ %alertness, %retire ], [ %alertness, %run ], [ %alert, %up ]
  br label %look
look:
  %i = phi i32 [ 0, %start ], [ %again, %rest ]
  %seen = phi i64 [ -1, %start ], [ %ticket, %rest ]
  %wanted = load atomic i32, ptr @wanted acquire, align 4
  %retired = icmp uge i32 %number, %wanted
  br i1 %retired, label %retire, label %active
retire:
  call void @sleep(ptr @wanted, i32 %wanted, ptr null)
  br label %start
active:
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %none = call i1 @claimed(i64 %ticket)
  br i1 %none, label %rest, label %run
run:
  call void @work(i1 true)
  br label %start
rest:
  call void @pause()
  %quiet = icmp eq i64 %ticket, %seen   ; jobs that were over too soon for us are also a reason to stay
  %i1 = add i32 %i, 1
  %again = select i1 %quiet, i32 %i1, i32 0
  %once = load atomic i32, ptr @patience monotonic, align 4
  %spins = mul i32 %once, %alertness
  %more = icmp ult i32 %again, %spins
  br i1 %more, label %look, label %park
park:
  %wakeups = load atomic i32, ptr @wakeups seq_cst, align 4
  %others = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  ; The caller writes the ticket and then reads the sleepers: one of us sees the other.
  %ticket2 = load atomic i64, ptr @ticket seq_cst, align 8
  %wanted2 = load atomic i32, ptr @wanted seq_cst, align 4
  %nothing = call i1 @claimed(i64 %ticket2)
  %same = icmp eq i32 %wanted2, %wanted
  %tired = and i1 %nothing, %same
  br i1 %tired, label %bed, label %up
bed:
  call void @sleep(ptr @wakeups, i32 %wakeups, ptr @nap)
  %wakeups2 = load atomic i32, ptr @wakeups seq_cst, align 4
  %on = icmp eq i32 %wakeups, %wakeups2
  br i1 %on, label %night, label %up
night:
  call void @sleep(ptr @wakeups, i32 %wakeups, ptr null)
  br label %up
up:
  %alert = phi i32 [ %alertness, %park ], [ $ALERT, %bed ], [ 1, %night ]
  %others2 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  br label %start
}

define internal void @grow(i32 %from, i32 %to) noinline {
entry:
  %thread = alloca i64
  %blocked = alloca [32 x i64]
  %before = alloca [32 x i64]
  ; Signals are for Python's threads; those of a fault (ILL 4, BUS 7, FPE 8, SEGV 11) are where it was.
  call i32 @sigfillset(ptr %blocked)
  call i32 @sigdelset(ptr %blocked, i32 4)
  call i32 @sigdelset(ptr %blocked, i32 7)
  call i32 @sigdelset(ptr %blocked, i32 8)
  call i32 @sigdelset(ptr %blocked, i32 11)
  call i32 @pthread_sigmask(i32 2, ptr %blocked, ptr %before)
  br label %next
next:
  %i = phi i32 [ %from, %entry ], [ %i1, %made ]
  %number = zext i32 %i to i64
  %argument = inttoptr i64 %number to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %made, label %done
made:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %to
  br i1 %more, label %next, label %done
done:
  call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  ; Also where the system gives no more threads: asking at every job would not help.
  store i32 %to, ptr @created
  ret void
}

; Let workers see a job; into how many batches it is cut.
define internal i32 @publish(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %chunks, i64 %modes) {
  %clear = and i64 %modes, ~RAISED
  store atomic ptr %body, ptr @job monotonic, align 8
  store atomic ptr %args, ptr getelementptr (i64, ptr @job, i64 1) monotonic, align 8
  store atomic i64 %n, ptr getelementptr (i64, ptr @job, i64 2) monotonic, align 8
  store atomic i64 %grain, ptr getelementptr (i64, ptr @job, i64 3) monotonic, align 8
  store atomic i64 %chunks, ptr getelementptr (i64, ptr @job, i64 4) monotonic, align 8
  store atomic i64 %clear, ptr getelementptr (i64, ptr @job, i64 5) monotonic, align 8
  %last = sub i64 %chunks, 1
  %many = udiv i64 %last, 65535
  %batch = add i64 %many, 1
  store atomic i64 %batch, ptr getelementptr (i64, ptr @job, i64 6) monotonic, align 8
  %others = udiv i64 %last, %batch
  %batches = add i64 %others, 1
  %count = trunc i64 %batches to i32
  store atomic i32 %count, ptr @left monotonic, align 4
  %old = load atomic i64, ptr @ticket monotonic, align 8
  %jobs = and i64 %old, -4294967296
  %job = add i64 %jobs, 4294967296
  %high = shl i64 %batches, 16
  %new = or i64 %job, %high
  store atomic i64 %new, ptr @ticket seq_cst, align 8
  ret i32 %count
}

; Do what is left of the job, and wait for the others.
define internal void @complete() {
entry:
  call void @work(i1 false)
  br label %wait
wait:
  %i = phi i32 [ 0, %entry ], [ %i1, %pause ]
  %left = load atomic i32, ptr @left acquire, align 4
  %over = icmp eq i32 %left, 0
  br i1 %over, label %done, label %pause
pause:
  call void @pause()
  %i1 = add i32 %i, 1
  %spins = load atomic i32, ptr @patience monotonic, align 4
  %more = icmp ult i32 %i1, %spins
  br i1 %more, label %wait, label %tired
tired:   ; perhaps the worker needs this core
  store atomic i32 1, ptr @waiting seq_cst, align 4
  br label %doze
doze:
  %still = load atomic i32, ptr @left seq_cst, align 4
  %finished = icmp eq i32 %still, 0
  br i1 %finished, label %rise, label %bed
bed:
  call void @sleep(ptr @left, i32 %still, ptr null)
  br label %doze
rise:
  store atomic i32 0, ptr @waiting monotonic, align 4
  br label %done
done:
  ret void
}

define internal void @nothing(ptr %args, i64 %low, i64 %high) {
  ret void
}

; Find out how long a worker that is awake takes to do nothing; with all asleep, try again at the next job.
define internal void @probe(i64 %modes) noinline {
entry:
  %asleep = load atomic i32, ptr @sleepers monotonic, align 4
  %made = load i32, ptr @created
  %wanted = load atomic i32, ptr @wanted monotonic, align 4
  %there = call i32 @llvm.umin.i32(i32 %made, i32 %wanted)
  %nobody = icmp uge i32 %asleep, %there
  br i1 %nobody, label %done, label %begin
begin:
  store atomic i32 0, ptr @jobs monotonic, align 4
  %start = call i64 @ticks()
  %one = call i32 @publish(ptr @nothing, ptr null, i64 1, i64 1, i64 1, i64 %modes)
  br label %wait
wait:
  %i = phi i32 [ 0, %begin ], [ %i1, %pause ]
  %left = load atomic i32, ptr @left acquire, align 4
  %over = icmp eq i32 %left, 0
  br i1 %over, label %end, label %pause
pause:
  call void @pause()
  %i1 = add i32 %i, 1
  %spins = load atomic i32, ptr @patience monotonic, align 4
  %most = udiv i32 %spins, 4
  %more = icmp ult i32 %i1, %most
  br i1 %more, label %wait, label %end
end:
  %stop = call i64 @ticks()
  %taken = sub i64 %stop, %start
  %limit = load atomic i64, ptr @soon monotonic, align 8
  %late = icmp ugt i64 %taken, %limit
  %slow = zext i1 %late to i32
  store atomic i32 %slow, ptr @slow monotonic, align 4
  call void @complete()
  br label %done
done:
  ret void
}

define internal i1 @share(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %chunks, i64 %modes, i1 %near) {
entry:
  %wanted = load atomic i32, ptr @wanted monotonic, align 4
  %workers = icmp ne i32 %wanted, 0
  %several = icmp ugt i64 %chunks, 1
  %worth = and i1 %workers, %several
  br i1 %worth, label %count, label %no
count:
  %jobs = load atomic i32, ptr @jobs monotonic, align 4
  %jobs1 = add i32 %jobs, 1
  store atomic i32 %jobs1, ptr @jobs monotonic, align 4
  %due = icmp uge i32 %jobs1, $EVERY
  %delay = load atomic i32, ptr @slow monotonic, align 4
  %slow = icmp ne i32 %delay, 0
  %held = and i1 %slow, %near
  %undue = xor i1 %due, true
  %hold = and i1 %held, %undue
  br i1 %hold, label %no, label %far
far:
  br i1 %near, label %look, label %try
look:   ; is anybody awake?
  %asleep = load atomic i32, ptr @sleepers monotonic, align 4
  %made = load atomic i32, ptr @created monotonic, align 4
  %there = call i32 @llvm.umin.i32(i32 %made, i32 %wanted)
  %all = icmp uge i32 %asleep, %there
  br i1 %all, label %miss, label %try
miss:
  %missed = load atomic i32, ptr @missed monotonic, align 4
  %missed1 = add i32 %missed, 1
  %last_of_some = icmp uge i32 %missed1, $MISSED
  %counted = select i1 %last_of_some, i32 0, i32 %missed1
  store atomic i32 %counted, ptr @missed monotonic, align 4
  br i1 %last_of_some, label %try, label %no
try:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %ours = extractvalue { i32, i1 } %swap, 1
  br i1 %ours, label %check, label %no
no:
  ret i1 false
check:
  %created = load i32, ptr @created
  %enough = icmp uge i32 %created, %wanted
  br i1 %enough, label %turn, label %few
few:
  call void @grow(i32 %created, i32 %wanted)
  br label %turn
turn:
  br i1 %due, label %ask, label %go
ask:
  call void @probe(i64 %modes)
  br label %go
go:
  %batches = call i32 @publish(ptr %body, ptr %args, i64 %n, i64 %grain, i64 %chunks, i64 %modes)
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %awake = icmp eq i32 %sleepers, 0
  br i1 %awake, label %done, label %rouse
rouse:
  %taking_part = call i32 @llvm.umin.i32(i32 %created, i32 %wanted)
  %others_awake = icmp ult i32 %sleepers, %taking_part
  %enough_awake = and i1 %near, %others_awake
  br i1 %enough_awake, label %done, label %call
call:
  %useful = sub i32 %batches, 1
  %fewer = icmp ult i32 %sleepers, %useful
  %number = select i1 %fewer, i32 %sleepers, i32 %useful
  %wakeups = atomicrmw add ptr @wakeups, i32 1 seq_cst, align 4
  call void @wake(ptr @wakeups, i32 %number)
  br label %done
done:
  call void @complete()
  store atomic i32 0, ptr @busy release, align 4
  ret i1 true
}

define void @threads(i32 %wanted) {
  store atomic i32 %wanted, ptr @wanted seq_cst, align 4
  %wakeups = atomicrmw add ptr @wakeups, i32 1 seq_cst, align 4
  call void @wake(ptr @wakeups, i32 2147483647)
  call void @wake(ptr @wanted, i32 2147483647)
  ret void
}

define void @spins(i32 %count, i32 %ticks) {
  store atomic i32 %count, ptr @patience monotonic, align 4
  %soon = zext i32 %ticks to i64
  store atomic i64 %soon, ptr @soon monotonic, align 8
  ret void
}

define void @forked() {
  store i64 0, ptr @ticket
  store i32 0, ptr @left
  store i32 0, ptr @waiting
  store i32 0, ptr @created
  store i32 0, ptr @sleepers
  store i32 0, ptr @busy
  ret void
}
"""


def text(machine: str, system: str) -> str:
    """The module for a processor ("x86_64" or "aarch64") under a system ("linux" or another)."""
    modes, numbers = _PROCESSOR[machine]
    made = modes + _SERIAL + (_SHARED if system == "linux" else _ALONE)
    numbers = {**numbers, "ALERT": _ALERT, "NAP": _ALERT * SPIN, "NEAR": NEAR, "MISSED": _MISSED}
    numbers |= {"EVERY": _EVERY}
    made = sub(r"~([A-Z]+)", lambda found: str(~numbers[found[1]]), made)
    return sub(r"\$([A-Z]+)", lambda found: str(numbers[found[1]]), made)
